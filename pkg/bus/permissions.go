package bus

import (
	"slices"
	"strings"
)

// Right is a subject, or a pattern of subjects, that a tenant's user may use, and what for.
type Right struct {
	Subject, Why string
	// Ours is what our account calls it, where it has another name there.
	Ours string
	// Many answers may follow one request.
	Many bool
	// Own is heard within the tenant's account alone: nothing of ours gets there but answers to its own requests.
	Own bool
}

// Rights are all that a tenant's user may do. What is not named is refused. Each subject to publish on leads from the
// tenant's account to ours as a service, and each to listen on from ours to the tenant's as a stream, unless it is Own.
type Rights struct{ Publish, Subscribe []Right }

// InboxPrefix is what every subject begins with on which a tenant may have itself answered by Holdpoint-Reply (K14):
// _INBOX_<tenant>, a dot, and what its client makes up. Of all others' inboxes it reaches none. Requests and the
// broker's acknowledgements are answered on any inbox: the broker keeps their replies inside the tenant's account (B7).
func InboxPrefix(tenant string) string { return "_INBOX_" + tenant }

// TenantRights are the rights of a tenant's programs on a broker where NewTopology made the streams: publish events,
// call the request/reply API, and read what happened, and what to carry out, with readers of their own. No other
// tenant's subjects, no stream's settings or stored messages, nobody else's readers or acknowledgements (B7).
func TenantRights(tenant string) Rights {
	publish := []Right{
		{Subject: IngressSubject(tenant, "*"), Why: "events of its sources"},
		{Subject: APISubject(tenant, ">"), Why: "requests: claim, work, renew, submit, fail, get"},
	}
	for _, stream := range readableStreams(tenant) {
		publish = append(publish, readerRights(stream)...)
	}
	return Rights{
		Publish: publish,
		Subscribe: []Right{
			{Subject: "_INBOX.>", Why: "answers, the broker's acknowledgements, and what readers asked for", Own: true},
			{Subject: InboxPrefix(tenant) + ".>", Why: "the same, and answers to events that name it in Holdpoint-Reply"},
			{Subject: "holdpoint.events." + tenant + ".>", Why: "events as they happen, without a reader"},
		},
	}
}

// readableStreams are the streams of which a tenant's programs may have readers.
func readableStreams(tenant string) []string {
	return []string{EventsStream(tenant), ExecStream(tenant)}
}

// readerRights are what it takes to read a stream. Readers are made by us (see lendReaders).
func readerRights(stream string) []Right {
	made := func(verb, rest, why string) Right {
		return Right{Subject: consumerAPI + verb + stream + rest, Ours: readersPrefix + verb + stream + rest, Why: why}
	}
	return []Right{
		{Subject: "$JS.API.STREAM.INFO." + stream, Why: "see how far it reaches back"},
		made("CREATE.", "", "have a reader made, without a name"),
		made("CREATE.", ".>", "with a name, and with a filter"),
		made("DURABLE.CREATE.", ".*", "the same by clients before NATS 2.9"),
		{Subject: consumerAPI + "INFO." + stream + ".*", Why: "see how far a reader is"},
		{Subject: consumerAPI + "NAMES." + stream, Why: "name its readers"},
		{Subject: consumerAPI + "LIST." + stream, Why: "list its readers"},
		{Subject: consumerAPI + "DELETE." + stream + ".*", Why: "remove a reader"},
		{Subject: consumerAPI + "MSG.NEXT." + stream + ".*", Why: "ask for what is next", Many: true},
		// Not *.* before the stream's name: $JS.ACK.<other stream>.<reader>.<own stream>… matches that too, and the broker
		// takes it for an acknowledgement in the first form, whose deliveries cannot be read.
		{Subject: "$JS.ACK." + stream + ".*.*.*.*.*.*", Why: "acknowledge it"},
		{Subject: "$JS.ACK._.*." + stream + ".>", Why: "the same in the form that NATS 2.15 can use; _ stands for no domain"},
	}
}

// ReplyAllowed reports whether we may publish an answer on a subject that a tenant's event named: one under its own
// inbox prefix. Our rights are wider than its own: without this check it could have us write to other tenants' inboxes
// and streams, or to the broker's management interface.
func ReplyAllowed(tenant, subject string) bool {
	return tenant != "" && strings.HasPrefix(subject, InboxPrefix(tenant)+".") && isInbox(subject)
}

// answerable reports whether a request may be answered where it asks. A tenant's request comes from its own account,
// and the broker has put a subject of its own making in the place of the tenant's, which nobody else can name. Whoever
// waits under _INBOX is of our account.
func answerable(tenant, subject string) bool {
	return strings.HasPrefix(subject, "_R_.") || strings.HasPrefix(subject, "_INBOX.") && isInbox(subject) ||
		ReplyAllowed(tenant, subject)
}

// isInbox reports whether a subject is somebody's inbox, whoever it may be.
func isInbox(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX") && !strings.ContainsAny(subject, "*> \t\r\n") && len(subject) <= 255
}

// ours is what our account calls the subject of a right.
func (r *Right) ours() string {
	if r.Ours != "" {
		return r.Ours
	}
	return r.Subject
}

// shared are the rights that lead from one account to another.
func shared(rights []Right) []Right {
	return slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return r.Own })
}
