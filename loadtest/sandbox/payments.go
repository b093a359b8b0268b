package sandbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
)

// refundRequest is the body of POST /payments/refunds.
type refundRequest struct {
	Amount    json.RawMessage `json:"amount"` // exact decimal, as a JSON string or number
	Currency  string          `json:"currency"`
	PaymentID string          `json:"payment_id"`
	Reference string          `json:"reference"`
}

var (
	decimal  = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$`)
	nonzero  = regexp.MustCompile(`[1-9]`)
	currency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// refund checks the request and returns what the ledger keeps. The amount is never rounded or rewritten.
func (r *refundRequest) refund() (*Refund, *problem) {
	amount := string(bytes.Trim(r.Amount, `"`))
	switch {
	case !decimal.MatchString(amount) || !nonzero.MatchString(amount):
		return nil, invalid("invalid_amount", "amount must be a positive plain decimal with at most four places")
	case !currency.MatchString(r.Currency):
		return nil, invalid("invalid_currency", "currency must be three capital letters")
	case r.PaymentID == "":
		return nil, invalid("invalid_payment", "payment_id is missing")
	}
	return &Refund{Amount: amount, Currency: r.Currency, PaymentID: r.PaymentID}, nil
}

func createRefund(x *exchange) {
	var in refundRequest
	if !x.decode(&in) {
		return
	}
	x.refer(in.Reference)
	refund, refused := in.refund()
	if refused != nil {
		x.refuse(refused)
		return
	}
	x.write("", &Write{Refund: refund}, func(_ *ledger, w *Write) *problem {
		w.ObjectID = numbered("re_", w.Seq)
		return nil
	})
}

func readRefund(x *exchange) {
	if !x.begin() {
		return
	}
	x.pause()
	found, err := x.server.ledger.refund(x.r.PathValue("id"))
	switch {
	case err != nil:
		x.refuse(unavailable(err))
	case found == nil:
		x.refuse(notFound("refund"))
	default:
		x.finish(http.StatusOK, found.refundView())
	}
}

// refund returns the durable write of a refund, or nil.
func (l *ledger) refund(id string) (*Write, error) {
	l.mu.Lock()
	found := l.refunds[id]
	l.mu.Unlock()
	if found == nil {
		return nil, nil
	}
	return found, found.durable()
}

func findRefunds(x *exchange) {
	x.search(func(w *Write, copied bool) any {
		view := w.refundView()
		if copied {
			view.ID += duplicateSuffix
		}
		return view
	})
}
