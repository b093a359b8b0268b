package intake

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdpoint/holdpoint/contracts"
	"github.com/holdpoint/holdpoint/pkg/bus"
	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/signature"
)

// What was fresh when the broker took it is taken after an outage of any length, and what was not is not.
func TestASignatureIsHeldAgainstWhenTheBrokerTookTheMessage(t *testing.T) {
	t.Parallel()
	const secret, body = "demo_secret_of_this_test", `{"id":"evt_1"}`
	tenant, err := newTenant(&config.Tenant{ID: "demo", Sources: []*config.Source{{ID: "stripe", Mode: config.ModeWorker,
		MaxBytes: 1000, Rules: []*config.SourceRules{{Version: 1, Key: config.KeyRule{Pointers: []string{"/id"}}}},
		Signature: &signature.Config{Format: signature.Format{Scheme: signature.Stripe},
			Secrets: []signature.Secret{{Value: secret}}}}}})
	require.NoError(t, err)

	signedAt := time.Now().Add(-time.Hour)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", signedAt.Unix(), body)
	header := bus.Header{"stripe-signature": {fmt.Sprintf("t=%d,v1=%x", signedAt.Unix(), mac.Sum(nil))}}
	admit := func(stored time.Time) (string, *contracts.Problem) {
		claim, problem := natsDoor{t: tenant}.admit(&bus.Item{Subject: bus.IngressSubject("demo", "stripe"), Header: header,
			Data: []byte(body), Stored: stored})
		return claim.Key, problem
	}

	key, problem := admit(signedAt.Add(time.Minute))
	require.Nil(t, problem)
	require.Equal(t, "evt_1", key)
	_, problem = admit(time.Now())
	require.Equal(t, contracts.CodeStaleSignature, problem.Code)
	require.Contains(t, problem.Detail, string(signature.TooOld))
}
