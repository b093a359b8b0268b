package roster

import "github.com/holdpoint/holdpoint/pkg/bus"

// DemoKey is the example tenant's API key; its hash is in the example configuration.
const DemoKey = "hp_demo_key_for_local_use_only"

// BrokerUsers are who may connect to an embedded broker: the services, who may do everything, and a tenant, who may
// publish its events, call the request/reply API, read what happened, and nothing else (B7). The tenant's name is its
// id.
func BrokerUsers(secret, tenant, tenantSecret string) []bus.User {
	events := bus.EventsStream(tenant)
	return []bus.User{
		{Name: "holdpoint", Password: secret},
		{Name: tenant, Password: tenantSecret,
			Publish: []string{bus.IngressSubject(tenant, ">"), bus.APISubject(tenant, ">"),
				"$JS.API.INFO", "$JS.API.STREAM.INFO." + events,
				"$JS.API.STREAM.NAMES", "$JS.API.CONSUMER.*." + events, "$JS.API.CONSUMER.*." + events + ".>",
				"$JS.API.CONSUMER.MSG.NEXT." + events + ".>",
				"$JS.ACK." + events + ".>", "$JS.ACK.*.*." + events + ".>"},
			Subscribe: []string{"_INBOX.>", "holdpoint.events." + tenant + ".>"}},
	}
}
