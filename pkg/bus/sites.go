package bus

import "github.com/holdpoint/holdpoint/pkg/fault"

// The boundaries of the consumers that NewTopology makes, and of the one publisher, are declared before any of them runs, so that a
// build can list all its boundaries and the crash suite notices one that is never reached.
var _ = []*fault.Site{
	fault.NewSite(IntakeConsumer, "ack", fault.KindAck),
	fault.NewSite(PolicyConsumer, "ack", fault.KindAck),
	fault.NewSite(DispatchConsumer, "ack", fault.KindAck),
	fault.NewSite("relay", "publish", fault.KindPublish),
}
