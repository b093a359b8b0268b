package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// consumerAPI is where the broker makes, describes and removes consumers. A tenant's requests to make one come out in
// our account under readersPrefix instead, with the same words after it.
const (
	consumerAPI   = "$JS.API.CONSUMER."
	readersPrefix = "holdpoint.readers."
)

// lendReaders makes consumers for tenants' programs, until it is stopped. The broker would make them itself, but a
// consumer with a deliver_subject has the broker write to any subject of the account that holds the stream, which is
// ours: into other tenants' ingress, or between our services (B7). So we make those alone that hand out what they
// are asked for, and wait for the broker's answer where nobody else can hear it.
//
// Replicas share the requests; each stream has a goroutine of its own, so that a busy tenant holds up itself.
func (c *Conn) lendReaders(topology Topology) (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, sub := range subs {
			if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				c.log.Debug("stop making readers", "error", err)
			}
		}
		c.flush() // After it nothing more is sent to us.
	}
	for _, s := range topology.Streams {
		if !s.Readable {
			continue
		}
		for _, subject := range []string{"CREATE." + s.Name, "CREATE." + s.Name + ".>", "DURABLE.CREATE." + s.Name + ".*"} {
			sub, err := c.nc.QueueSubscribe(readersPrefix+subject, "readers", c.lendReader)
			if err != nil {
				stop()
				return nil, fmt.Errorf("take requests for readers of %s: %w", s.Name, plainly(err))
			}
			subs = append(subs, sub)
		}
	}
	return stop, nil
}

// lendReader answers one request as the broker would.
func (c *Conn) lendReader(m *nats.Msg) {
	if !answerable("", m.Reply) {
		c.log.Warn("ignored a request for a reader without an inbox to answer to", "subject", m.Subject)
		return
	}
	answer, refused := c.makeReader(m)
	if refused != nil {
		// It is plain data, which has a JSON form.
		answer, _ = json.Marshal(server.ApiResponse{Type: server.JSApiConsumerCreateResponseType, Error: refused})
	}
	if err := c.send("answer a request for a reader", m.Reply, answer); err != nil {
		c.log.Warn("an answer could not be sent", "error", err)
	}
}

// makeReader passes on what it has understood, and nothing else of what was sent.
func (c *Conn) makeReader(m *nats.Msg) ([]byte, *server.ApiError) {
	request, refused := pullOnly(m.Data)
	if refused != nil {
		return nil, refused
	}
	answer, err := c.nc.Request(consumerAPI+strings.TrimPrefix(m.Subject, readersPrefix), request, apiTimeout)
	if err != nil {
		c.log.Warn("the broker made no reader", "subject", m.Subject, "error", plainly(err))
		return nil, refusal(503, server.JSClusterNotAvailErr, "the broker did not answer; ask again")
	}
	return answer.Data, nil
}

// pullOnly reads a request strictly and writes it again, so that the broker sees what was checked.
func pullOnly(data []byte) ([]byte, *server.ApiError) {
	var request server.CreateConsumerRequest
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return nil, refusal(400, server.JSInvalidJSONErr, "not a request for a reader that is known here: "+err.Error())
	}
	if c := &request.Config; c.DeliverSubject != "" || c.DeliverGroup != "" || c.Direct || c.Sourcing {
		return nil, refusal(403, server.JSConsumerInvalidDeliverSubject,
			"readers are asked for messages (pull); none delivers by itself (deliver_subject, deliver_group, direct, sourcing)")
	}
	again, err := json.Marshal(&request)
	if err != nil {
		return nil, refusal(400, server.JSInvalidJSONErr, err.Error())
	}
	return again, nil
}

func refusal(status int, code server.ErrorIdentifier, why string) *server.ApiError {
	return &server.ApiError{Code: status, ErrCode: uint16(code), Description: why}
}
