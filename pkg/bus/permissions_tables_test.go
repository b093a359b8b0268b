package bus_test

import "github.com/holdpoint/holdpoint/pkg/bus"

// foreign is what tenant acme must not publish on: other's subjects, ours, and all of the broker's management but the
// reading of its own events.
var foreign = []string{
	// Another tenant's doors and events, and what looks like its own.
	bus.IngressSubject("other", "crm"), bus.APISubject("other", "claim.crm"), bus.APISubject("other", "get"),
	bus.EventSubject("other", "run", "completed"), bus.InboxPrefix("other") + ".1",
	bus.IngressSubject("acme2", "crm"), bus.IngressSubject("acme", "crm.more"),
	// Events are told by Holdpoint alone, also its own.
	bus.EventSubject("acme", "run", "completed"), bus.ExecSubject("acme", "crm"), bus.ExecSubject("other", "crm"),
	// Between our services.
	bus.InternalSubject("intent", "submitted"), bus.InternalSubject("effect", "requested"), bus.WakeSubject("relay"),
	"_INBOX.anybody.1", "_INBOX_acme.1", "_R_.anything", "holdpoint.anything", "holdpoint.nobody.acme",
	"holdpoint.readers.CREATE.HOLDPOINT_EVENTS_ACME", "holdpoint.readers.CREATE.HOLDPOINT_EVENTS_OTHER.spy",

	// Streams: nobody's are made, changed, emptied or listed.
	"$JS.API.STREAM.CREATE.SPY", "$JS.API.STREAM.UPDATE.HOLDPOINT_EVENTS_ACME", "$JS.API.STREAM.DELETE.HOLDPOINT_EVENTS_ACME",
	"$JS.API.STREAM.PURGE.HOLDPOINT_EVENTS_ACME", "$JS.API.STREAM.PURGE.HOLDPOINT_EVENTS_OTHER",
	"$JS.API.STREAM.DELETE.HOLDPOINT_INTERNAL", "$JS.API.STREAM.DELETE.HOLDPOINT_INGRESS_ACME",
	"$JS.API.STREAM.MSG.DELETE.HOLDPOINT_EVENTS_OTHER", "$JS.API.STREAM.RESTORE.SPY",
	"$JS.API.STREAM.SNAPSHOT.HOLDPOINT_EVENTS_OTHER", "$JS.API.STREAM.LEADER.STEPDOWN.HOLDPOINT_EVENTS_OTHER",
	"$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.HOLDPOINT_EVENTS_OTHER",
	"$JS.API.STREAM.INFO.HOLDPOINT_INTERNAL", "$JS.API.STREAM.INFO.HOLDPOINT_INGRESS_ACME",
	// Stored messages.
	"$JS.API.DIRECT.GET.HOLDPOINT_EVENTS_OTHER", "$JS.API.DIRECT.GET.HOLDPOINT_EVENTS_OTHER.holdpoint.events.other.run.ended",
	"$JS.API.STREAM.MSG.GET.HOLDPOINT_EVENTS_OTHER", "$JS.API.STREAM.MSG.GET.HOLDPOINT_INTERNAL",
	"$JS.API.STREAM.MSG.GET.HOLDPOINT_INGRESS_OTHER",
	// Readers of streams that are not its events.
	"$JS.API.CONSUMER.CREATE.HOLDPOINT_EVENTS_OTHER", "$JS.API.CONSUMER.CREATE.HOLDPOINT_EVENTS_OTHER.spy",
	"$JS.API.CONSUMER.DURABLE.CREATE.HOLDPOINT_EVENTS_OTHER.spy", "$JS.API.CONSUMER.CREATE.HOLDPOINT_INTERNAL.spy",
	"$JS.API.CONSUMER.CREATE.HOLDPOINT_EXEC_OTHER", "$JS.API.CONSUMER.MSG.NEXT.HOLDPOINT_EXEC_OTHER.reader",
	"$JS.API.STREAM.PURGE.HOLDPOINT_EXEC_ACME", "$JS.API.CONSUMER.PAUSE.HOLDPOINT_EXEC_ACME.reader",
	"$JS.API.CONSUMER.CREATE.HOLDPOINT_INGRESS_ACME.spy", "$JS.API.CONSUMER.CREATE.HOLDPOINT_INGRESS_OTHER.spy",
	"$JS.API.CONSUMER.DELETE.HOLDPOINT_EVENTS_OTHER.reader", "$JS.API.CONSUMER.DELETE.HOLDPOINT_INGRESS_ACME.intake",
	"$JS.API.CONSUMER.INFO.HOLDPOINT_EVENTS_OTHER.reader", "$JS.API.CONSUMER.INFO.HOLDPOINT_INTERNAL.policy",
	"$JS.API.CONSUMER.NAMES.HOLDPOINT_EVENTS_OTHER", "$JS.API.CONSUMER.LIST.HOLDPOINT_EVENTS_OTHER",
	"$JS.API.CONSUMER.MSG.NEXT.HOLDPOINT_EVENTS_OTHER.reader", "$JS.API.CONSUMER.MSG.NEXT.HOLDPOINT_INTERNAL.policy",
	"$JS.API.CONSUMER.MSG.NEXT.HOLDPOINT_INGRESS_ACME.intake", "$JS.API.CONSUMER.PAUSE.HOLDPOINT_EVENTS_OTHER.reader",
	"$JS.API.CONSUMER.RESET.HOLDPOINT_EVENTS_OTHER.reader", "$JS.API.CONSUMER.UNPIN.HOLDPOINT_EVENTS_OTHER.reader",
	// Acknowledgements of others, in both forms, and one that hides its own stream's name in the place of a number.
	"$JS.ACK.HOLDPOINT_EVENTS_OTHER.reader.1.1.1.1.0", "$JS.ACK._.x.HOLDPOINT_EVENTS_OTHER.reader.1.1.1.1.0",
	"$JS.ACK.HOLDPOINT_INTERNAL.policy.1.1.1.1.0", "$JS.ACK.HOLDPOINT_INGRESS_ACME.intake.1.1.1.1.0",
	"$JS.ACK.HOLDPOINT_EVENTS_OTHER.reader.HOLDPOINT_EVENTS_ACME.1.1.1.0",
	"$JS.FC.HOLDPOINT_EVENTS_OTHER.reader.1",
	// The broker, its system, its other stores, and the list of our services.
	"$JS.API.INFO", "$JS.API.META.LEADER.STEPDOWN", "$JS.API.SERVER.REMOVE", "$JS.API.ACCOUNT.PURGE.$G",
	"$JS.EVENT.ADVISORY.API", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ",
	"$SRV.PING", "$SRV.INFO.holdpoint-other", "$SRV.STATS.holdpoint-acme", "$KV.bucket.key", "$O.bucket.C.chunk",
	"$MQTT.msgs.x", "$NRG.V.x",
}

// overheard is what tenant acme must not listen on.
var overheard = []string{
	">", "*", "*.>", "*.*.*", "_INBOX_other.>", "_INBOX_other.1", "_INBOX_*.>",
	"holdpoint.>", "holdpoint.*.acme.>", "holdpoint.events.>", "holdpoint.events.*.run.completed", "holdpoint.events.other.>",
	"holdpoint.events.other.run.completed", "holdpoint.ingress.>", "holdpoint.ingress.other.*", "holdpoint.ingress.acme.*",
	"holdpoint.api.>", "holdpoint.api.acme.>", "holdpoint.internal.>", "holdpoint.wake.>", "holdpoint.exec.acme.>",
	"holdpoint.exec.other.>", "holdpoint.readers.>", "holdpoint.nobody.acme",
	"$JS.>", "$JS.EVENT.>", "$JS.EVENT.ADVISORY.>", "$JS.API.>", "$JS.ACK.>", "$JS.FC.>", "$SYS.>", "$SRV.>", "$KV.>", "$O.>",
	"_R_.>", "_GR_.>",
}
