package roster

import "github.com/holdpoint/holdpoint/pkg/bus"

// DemoKey is the example tenant's API key; its hash is in the example configuration.
const DemoKey = "hp_demo_key_for_local_use_only"

// BrokerUsers are who may connect to an embedded broker: the services, who may do everything, and a tenant, who reaches
// its own subjects alone (B7). The tenant's name is its id.
func BrokerUsers(secret, tenant, tenantSecret string) []bus.User {
	return []bus.User{
		{Name: bus.ServicesUser, Password: secret}, {Name: tenant, Password: tenantSecret, Tenant: tenant},
	}
}
