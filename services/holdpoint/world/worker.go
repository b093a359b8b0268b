package world

import (
	"encoding/json"
	"net/http"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
)

// Worker is one execution of a program that claims runs and proposes for them, over HTTP.
type Worker struct {
	w     *World
	owner string // random per execution (K7)
}

// Worker makes one.
func (w *World) Worker() *Worker { return &Worker{w, uuid.NewString()} }

// Claim delivers the event and asks for its run.
func (k *Worker) Claim(e Event) Reply {
	k.w.t.Helper()
	reply, err := k.w.Call(http.MethodPost, "/v1/sources/"+e.Source+"/claims",
		map[string]string{"Idempotency-Key": e.Key, "Holdpoint-Owner": k.owner}, e.Text())
	require.NoError(k.w.t, err)
	return reply
}

// Renew lengthens the lease.
func (k *Worker) Renew(e Event, l *contracts.Lease) Reply {
	k.w.t.Helper()
	return k.own(e, "renewal", l, object{})
}

// Submit hands in a proposal under the lease.
func (k *Worker) Submit(e Event, l *contracts.Lease) Reply {
	k.w.t.Helper()
	return k.own(e, "proposal", l, object{"proposal": e.Proposal("crm.contact.update")})
}

func (k *Worker) own(e Event, what string, l *contracts.Lease, body object) Reply {
	k.w.t.Helper()
	body["owner"], body["version"] = l.Owner, l.Version
	text, err := json.Marshal(body)
	require.NoError(k.w.t, err)
	reply, err := k.w.Call(http.MethodPost, "/v1/runs/"+e.RunID().String()+"/"+what, nil, text)
	require.NoError(k.w.t, err)
	return reply
}
