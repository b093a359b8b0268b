package connector

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/mail"
	"net/textproto"
	"regexp"
	"strings"

	"github.com/holdpoint/holdpoint/pkg/outcome"
)

// gaveUp is an attempt that came to nothing for a reason on our side.
func gaveUp(err error) *Result {
	result := notSent(err)
	return &result
}

// unavailable is an attempt at a server that cannot be reached, or does not do its part, before the message has ended.
func unavailable(stage string, err error) *Result {
	return gaveUp(fmt.Errorf("%w: %s: %w", ErrUnavailable, stage, err))
}

// replyCode is the code of a server's refusal, 0 where the error is none.
func replyCode(err error) int {
	if reply := (*textproto.Error)(nil); errors.As(err, &reply) {
		return reply.Code
	}
	return 0
}

// stopped is an attempt that ended at a command: by the server's word, or because there was none.
func stopped(stage string, err error) *Result {
	if reply := (*textproto.Error)(nil); errors.As(err, &reply) {
		return refusal(stage, reply)
	}
	return unavailable(stage, err)
}

// refusal is what a reply before the message means. A code that is neither 4yz nor 5yz says nothing at this place.
func refusal(stage string, reply *textproto.Error) *Result {
	class := classOf(reply.Code)
	if stage == "AUTH" && class == outcome.Refused {
		class = outcome.Unauthorized // however it is said, the login was not accepted
	}
	if class == "" {
		return unavailable(stage, fmt.Errorf("the server answered %s, which is no answer to that", said(reply)))
	}
	return &Result{Class: class, Detail: detail("%s was answered %s; nothing was sent", stage, said(reply))}
}

// classOf is what a code means that is not a success: "" for none of the others.
func classOf(code int) outcome.Class {
	switch {
	case code == 530 || code == 534 || code == 535 || code == 538: // RFC 4954, section 6
		return outcome.Unauthorized
	case code >= 500 && code < 600:
		return outcome.Refused
	case code >= 400 && code < 500:
		return outcome.RejectedBusy
	}
	return ""
}

// rcptAnswer is what the server said to one recipient; nil is that it takes mail for it.
type rcptAnswer struct{ err error }

// refusedRecipients is nil where all are taken. It names recipients by their place in the message, To before Cc, and gives codes
// alone: what servers say besides has the address in it, which is somebody's.
func refusedRecipients(answers []rcptAnswer) *Result {
	class := outcome.Class("")
	var list []string
	for i, a := range answers {
		if a.err == nil {
			continue
		}
		reply := (*textproto.Error)(nil)
		errors.As(a.err, &reply)
		list = append(list, fmt.Sprintf("number %d: %s", i+1, codes(reply)))
		class = graver(class, cmp.Or(classOf(reply.Code), outcome.RejectedBusy))
	}
	if class == "" {
		return nil
	}
	return &Result{Class: class, Detail: detail("%d of %d recipients were refused, so nothing was sent to anybody: %s", len(list),
		len(answers), strings.Join(list, ", "))}
}

// graver is the class of a message by those of two recipients: what is final for one is final for all.
func graver(a, b outcome.Class) outcome.Class {
	for _, class := range []outcome.Class{outcome.Unauthorized, outcome.Refused, outcome.RejectedBusy} {
		if a == class || b == class {
			return class
		}
	}
	return b
}

// taken is what the answer to the end of a message means (RFC 5321, 4.2.5): with 2yz the message is the server's, with 4yz and 5yz the
// server does nothing with it.
func taken(code int, text, messageID string) Result {
	reply := &textproto.Error{Code: code, Msg: text}
	switch class := classOf(code); {
	case code >= 200 && code < 300:
		return Result{Class: outcome.Succeeded, Sent: true, ExternalID: cmp.Or(queueID(text), messageID),
			Detail: detail("the server took the message: %s", said(reply))}
	case class != "":
		return Result{Class: class, Sent: true, Detail: detail("the end of the message was answered %s; the server did not take it",
			said(reply))}
	}
	return handedOver(messageID, "a nonsensical answer: "+said(reply), errors.New("the server's answer makes no sense"))
}

// handedOver is a message of which nobody knows whether the server took it. Nothing finds it but people.
func handedOver(messageID, why string, err error) Result {
	return Result{Class: outcome.Ambiguous, Sent: true, Err: err, Detail: detail("the whole message was handed over, and there was %s; "+
		"only the server's log or a recipient's mailbox can tell, by the Message-ID %s", why, messageID)}
}

var (
	address  = regexp.MustCompile(`\S*@\S*`)
	enhanced = regexp.MustCompile(`^[245]\.[0-9]{1,3}\.[0-9]{1,3}\b`) // RFC 3463
	queued   = regexp.MustCompile(`(?i)\b(?:queued as|id=|queued mail for delivery,? id)\s*([A-Za-z0-9][A-Za-z0-9._-]{0,127})`)
)

// said is a reply for an operator, without addresses.
func said(reply *textproto.Error) string {
	text := address.ReplaceAllString(strings.Join(strings.Fields(reply.Msg), " "), "(address)")
	return strings.TrimSpace(fmt.Sprintf("%d %s", reply.Code, printable(text, 100)))
}

// codes are the numbers of a reply alone.
func codes(reply *textproto.Error) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", reply.Code, enhanced.FindString(reply.Msg)))
}

// queueID is what the server calls the message, "" where it does not say so in a way that is known.
func queueID(text string) string {
	if found := queued.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// messageIDOf is what stands in the message's header.
func messageIDOf(r *Request) string {
	message, err := mail.ReadMessage(bytes.NewReader(r.Body))
	if err != nil {
		return ""
	}
	return message.Header.Get("Message-Id")
}
