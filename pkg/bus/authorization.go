package bus

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ServicesUser is the broker's user for Holdpoint's own services, who may do everything.
const ServicesUser = "holdpoint"

// PasswordVariable is the environment variable from which nats-server reads a user's password:
// NATS_<USER IN CAPITALS>_PASSWORD, with _ for -.
func PasswordVariable(user string) string {
	return "NATS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
}

// tenantID is what an id may be here. It is as the configuration has it, checked again because whatever else is in an id
// would become part of the broker's rules.
var tenantID = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

const authorizationHead = `# Who may do what on the broker. Printed by "holdpoint nats-config" from the configuration's tenants: print it again when
# a tenant comes or goes, include it in nats.conf, and restart nats-server, which reads the passwords as it starts. What
# is not allowed here is refused.
#
# A password comes from the environment and must begin with a letter: one that looks like a number is read as one.
# nats-server limits connections and subscriptions for all users together (max_connections, max_subscriptions), not for
# one of them.
authorization {
  users = [
    # Holdpoint's services: everything.
    { user: "%s", password: $%s }
`

// Authorization is the block of nats-server's configuration that lets in our services and each of the tenants, with the
// rights of TenantRights and a comment for each. The error joins a complaint for each id that cannot be a user.
func Authorization(tenants []string) (string, error) {
	if err := checkUsers(tenants); err != nil {
		return "", fmt.Errorf("authorization of the broker: %w", err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, authorizationHead, ServicesUser, PasswordVariable(ServicesUser))
	for _, tenant := range tenants {
		writeTenant(&out, tenant)
	}
	out.WriteString("  ]\n}\n")
	return out.String(), nil
}

func checkUsers(tenants []string) error {
	var problems []error
	for i, tenant := range tenants {
		switch {
		case !tenantID.MatchString(tenant):
			problems = append(problems, fmt.Errorf("tenant %q is not 1 to 32 of a-z, 0-9 and -", tenant))
		case tenant == ServicesUser:
			problems = append(problems, fmt.Errorf("tenant %q has the name of the services' user; give it another id", tenant))
		case slices.Contains(tenants[:i], tenant):
			problems = append(problems, fmt.Errorf("tenant %q is there twice", tenant))
		}
	}
	return errors.Join(problems...)
}

// writeTenant allows no leaf node and no MQTT session with a tenant's password: those bring subjects of their own.
func writeTenant(out *strings.Builder, tenant string) {
	rights := TenantRights(tenant)
	fmt.Fprintf(out, `
    # Tenant %[1]s: its own subjects alone. Its clients set the inbox prefix %[3]s.
    {
      user: "%[1]s"
      password: $%[2]s
      allowed_connection_types: ["STANDARD", "WEBSOCKET"] # no leaf node, no MQTT
      permissions {
        publish {
          allow: [
`, tenant, PasswordVariable(tenant), InboxPrefix(tenant))
	writeRights(out, rights.Publish)
	out.WriteString("          ]\n        }\n        subscribe {\n          allow: [\n")
	writeRights(out, rights.Subscribe)
	out.WriteString("          ]\n        }\n      }\n    }\n")
}

func writeRights(out *strings.Builder, rights []Right) {
	for _, right := range rights {
		fmt.Fprintf(out, "            %q # %s\n", right.Subject, right.Why)
	}
}
