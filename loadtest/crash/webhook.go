package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/loadtest/sandbox"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/webhook"
)

// hookSecret is what the provider of the blind action signs with; the suite posts in its place.
const hookSecret = "whsec_demoCrashSuiteProviderKnownToAll"

// finishedLater accepts a write and says that it is finished later.
var finishedLater = once(sandbox.Fault{Kind: sandbox.ErrorAfterAccept, Status: http.StatusAccepted})

// told has the reconciler die while it takes, applies or notes what the provider tells of the trial's effect.
func told(before func(context.Context, *trial) error) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		if err := before(ctx, t); err != nil {
			return err
		}
		if err := t.arm(); err != nil {
			return err
		}
		if err := t.through(ctx, t.tell); err != nil {
			return err
		}
		return t.until(ctx, "the provider's event to be settled",
			"exists (select from provider_events p where p.run_id = r.run_id and p.state <> 'waiting')")
	}
}

// acceptedOnly brings an event as far as that its effect waits for the provider's word.
func acceptedOnly(ctx context.Context, t *trial) error {
	if _, err := t.provoke(ctx, finishedLater); err != nil {
		return err
	}
	if err := t.deliver(ctx); err != nil {
		return err
	}
	return t.effectIs(ctx, ledger.EffectAccepted)
}

// doneAlready brings an event to its end, so that the provider's word changes nothing.
func doneAlready(ctx context.Context, t *trial) error {
	if err := t.deliver(ctx); err != nil {
		return err
	}
	return t.effectIs(ctx, ledger.EffectCompleted)
}

// tell posts what became of the trial's write until it is taken, as a provider does.
func (t *trial) tell(ctx context.Context) error {
	url := "http://" + t.webhookAddr + "/v1/connectors/" + tenant + "/blind-crm/webhook"
	sender, err := webhook.New(webhook.Config{Secret: webhook.Secret{Text: hookSecret}, URL: url, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"reference": t.operation, "status": "succeeded"})
	if err != nil {
		return err
	}
	var last error
	err = poll(ctx, "the reconciler to take a webhook", func() (bool, error) {
		last = sender.Post(ctx, url, "evt-"+t.key, body)
		return last == nil, ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}
