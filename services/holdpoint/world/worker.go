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

// Take asks for a run of a source that waits, and is the lease under which it was given.
func (k *Worker) Take(source string) *contracts.Lease {
	k.w.t.Helper()
	reply, err := k.w.Call(http.MethodPost, "/v1/sources/"+source+"/work", nil, []byte(`{"owner":"`+k.owner+`"}`))
	require.NoError(k.w.t, err)
	require.Equal(k.w.t, http.StatusOK, reply.Status)
	return &contracts.Lease{Owner: k.owner, Version: k.w.Count(`select version from runs where lease_owner = $1::uuid`, k.owner)}
}

// Renew lengthens the lease.
func (k *Worker) Renew(e Event, l *contracts.Lease) Reply {
	k.w.t.Helper()
	return k.own(e, "renewal", l, object{})
}

// Submit hands in a proposal under the lease.
func (k *Worker) Submit(e Event, l *contracts.Lease) Reply {
	k.w.t.Helper()
	return k.Propose(e, l, e.Proposal("crm.contact.update"))
}

// Propose hands in any proposal under the lease.
func (k *Worker) Propose(e Event, l *contracts.Lease, proposal any) Reply {
	k.w.t.Helper()
	return k.own(e, "proposal", l, object{"proposal": proposal})
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
