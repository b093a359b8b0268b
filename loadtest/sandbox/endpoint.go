package sandbox

import "net/http"

// posted is the body of a post to an endpoint, as far as the sandbox looks into it.
type posted struct {
	OperationID string `json:"operation_id"` // the caller's reference, where there is no Webhook-Id
}

// endpointWrite reads a post to the endpoint in the path.
func (x *exchange) endpointWrite() (*Write, bool) {
	var in posted
	if !x.decode(&in) {
		return nil, false
	}
	x.refer(in.OperationID)
	name := x.r.PathValue("name")
	if !hookName.MatchString(name) {
		x.refuse(badRequest("an endpoint's name has 1 to 100 letters, digits, dots, dashes and underscores"))
		return nil, false
	}
	return &Write{Place: name}, true
}

// startWorkflow starts a workflow for every call, also for one that it had before. It says so at once, or where the personality has it
// finish, when the workflow has ended.
func startWorkflow(x *exchange) {
	w, ok := x.endpointWrite()
	if !ok {
		return
	}
	finishes := x.personality().Finishes
	w.answer = func() (int, any) {
		if finishes {
			return http.StatusOK, map[string]any{"ok": true, "execution_id": w.ObjectID}
		}
		return http.StatusOK, map[string]any{"message": "Workflow was started"}
	}
	x.write("", w, func(_ *ledger, w *Write) *problem {
		w.ObjectID = numbered("execution_", w.Seq)
		return nil
	})
}

// n8nError is an error as n8n writes it, with the code besides as a workflow would that answers by itself.
func n8nError(p *problem) any {
	return map[string]any{"code": p.status, "message": p.message, "error": p.code}
}

// receiveOnce takes a webhook, and none of the same Webhook-Id again for as long as the personality remembers keys.
func receiveOnce(x *exchange) {
	w, ok := x.endpointWrite()
	if !ok {
		return
	}
	x.refer(x.r.Header.Get("Webhook-Id"))
	x.write("", w, func(_ *ledger, w *Write) *problem {
		w.ObjectID = numbered("msg_", w.Seq)
		return nil
	})
}

// receiptView answers a webhook that was taken, now or before.
type receiptView struct {
	ID string `json:"id"`
}
