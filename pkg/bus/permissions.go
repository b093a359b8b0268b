package bus

import "strings"

// Right is a subject, or a pattern of subjects, that a user of the broker may use, and what for.
type Right struct{ Subject, Why string }

// Rights are all that a user of the broker may do. What is not named is refused.
type Rights struct{ Publish, Subscribe []Right }

// InboxPrefix is what every subject begins with on which a tenant may wait for answers: _INBOX_<tenant>, a dot, and what
// its client makes up. All others' answers pass under other prefixes, ours under _INBOX, so nobody listens in (B7).
// Clients are told with nats.CustomInboxPrefix, the command-line tool with --inbox-prefix.
func InboxPrefix(tenant string) string { return "_INBOX_" + tenant }

// TenantRights are the rights of a tenant's programs on a broker where NewTopology made the streams: publish events,
// call the request/reply API, and read what happened with consumers of their own. No other tenant's subjects, no
// stream's settings or stored messages, nobody else's consumers or acknowledgements (B7).
func TenantRights(tenant string) Rights {
	events, consumer := EventsStream(tenant), "$JS.API.CONSUMER."
	return Rights{
		Publish: []Right{
			{IngressSubject(tenant, "*"), "events of its sources"},
			{APISubject(tenant, ">"), "requests: claim, work, renew, submit, fail, get"},
			{"$JS.API.STREAM.INFO." + events, "see how far its events reach back"},
			{consumer + "CREATE." + events, "make a reader of its events without a name"},
			{consumer + "CREATE." + events + ".>", "make one with a name, and with a filter"},
			{consumer + "DURABLE.CREATE." + events + ".*", "the same by clients before NATS 2.9"},
			{consumer + "INFO." + events + ".*", "see how far a reader is"},
			{consumer + "NAMES." + events, "name its readers"},
			{consumer + "LIST." + events, "list its readers"},
			{consumer + "DELETE." + events + ".*", "remove a reader"},
			{consumer + "MSG.NEXT." + events + ".*", "ask for the next events"},
			// Not *.* before the stream's name: $JS.ACK.<other stream>.<reader>.<own stream>… matches that too, and the broker
			// takes it for an acknowledgement in the first form, whose deliveries cannot be read.
			{"$JS.ACK." + events + ".*.*.*.*.*.*", "acknowledge them"},
			{"$JS.ACK._.*." + events + ".>", "the same in the form that NATS 2.15 can use; _ stands for no domain"},
		},
		Subscribe: []Right{
			{InboxPrefix(tenant) + ".>", "answers, the broker's acknowledgements, and events asked for"},
			{"holdpoint.events." + tenant + ".>", "events as they happen, without a reader"},
		},
	}
}

// User is a user of an embedded server who has these rights.
func (r Rights) User(name, password string) User {
	return User{Name: name, Password: password, Publish: subjects(r.Publish), Subscribe: subjects(r.Subscribe)}
}

func subjects(rights []Right) []string {
	var all []string
	for _, right := range rights {
		all = append(all, right.Subject)
	}
	return all
}

// ReplyAllowed reports whether we may publish on a subject that a tenant's program named: one under its own inbox
// prefix, or under _INBOX, where clients listen that were told no prefix. Our rights are wider than its own: without this
// check it could have us write to other tenants' inboxes and streams, or to the broker's management interface. Of what
// comes to us under _INBOX nobody but the broker knows the subjects, which are random.
func ReplyAllowed(tenant, subject string) bool {
	own := tenant != "" && strings.HasPrefix(subject, InboxPrefix(tenant)+".")
	return isInbox(subject) && (own || strings.HasPrefix(subject, "_INBOX."))
}

// isInbox reports whether a subject is somebody's inbox, whoever it may be.
func isInbox(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX") && !strings.ContainsAny(subject, "*> \t\r\n") && len(subject) <= 255
}
