package bus

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ServicesUser is the broker's user for Holdpoint's own services, who may do everything in ServicesAccount. A tenant's
// account and user are both called by its id, which has no capitals.
const (
	ServicesUser    = "holdpoint"
	ServicesAccount = "HOLDPOINT"
)

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
# Each tenant has an account of its own, which sees nothing of ours, nor of another tenant's, but what is exported to
# it. What the broker writes at a tenant's request, such as an acknowledgement to a subject of its choice, stays there.
#
# A password comes from the environment and must begin with a letter: one that looks like a number is read as one.
accounts {
  # Holdpoint's services, who may do everything here, and all streams.
  %[1]s {
    jetstream: enabled
    users: [{ user: "%[2]s", password: $%[3]s }]
    exports: [
`

// Authorization is the block of nats-server's configuration that lets in our services and each of the tenants, each in
// an account of its own, with the rights of TenantRights and a comment for each. The error joins a complaint for each
// id that cannot be a user.
func Authorization(tenants []string) (string, error) {
	if err := checkUsers(tenants); err != nil {
		return "", fmt.Errorf("authorization of the broker: %w", err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, authorizationHead, ServicesAccount, ServicesUser, PasswordVariable(ServicesUser))
	for _, tenant := range tenants {
		writeExports(&out, tenant)
	}
	out.WriteString("    ]\n  }\n")
	for _, tenant := range tenants {
		writeTenant(&out, tenant)
	}
	out.WriteString("}\n")
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

func writeExports(out *strings.Builder, tenant string) {
	rights := TenantRights(tenant)
	for _, r := range shared(rights.Publish) {
		answers := ""
		if r.Many {
			answers = ", response: stream"
		}
		fmt.Fprintf(out, "      { service: %q, accounts: [%q]%s }\n", r.ours(), tenant, answers)
	}
	for _, r := range shared(rights.Subscribe) {
		fmt.Fprintf(out, "      { stream: %q, accounts: [%q] }\n", r.ours(), tenant)
	}
	fmt.Fprintf(out, "      { service: %q, accounts: [%q] } # nobody answers\n", nobody(tenant), tenant)
}

// nobody is a subject of our account on which nobody listens.
func nobody(tenant string) string { return "holdpoint.nobody." + tenant }

// writeTenant allows no leaf node and no MQTT session with a tenant's password: those bring subjects of their own. It
// names what may be used once more as permissions, so that a refusal is an error and not silence.
func writeTenant(out *strings.Builder, tenant string) {
	rights := TenantRights(tenant)
	fmt.Fprintf(out, `
  # Tenant %[1]s: its own subjects alone.
  "%[1]s" {
    users: [{
      user: "%[1]s"
      password: $%[2]s
      allowed_connection_types: ["STANDARD", "WEBSOCKET"] # no leaf node, no MQTT
      permissions {
        publish {
          allow: [
`, tenant, PasswordVariable(tenant))
	writeRights(out, rights.Publish)
	out.WriteString("          ]\n        }\n        subscribe {\n          allow: [\n")
	writeRights(out, rights.Subscribe)
	out.WriteString("          ]\n        }\n      }\n    }]\n    imports: [\n")
	writeImports(out, "service", shared(rights.Publish))
	writeImports(out, "stream", shared(rights.Subscribe))
	fmt.Fprintf(out, notOfItsOwn, ServicesAccount, nobody(tenant))
	out.WriteString("    ]\n  }\n")
}

// notOfItsOwn: nats-server lends JetStream's interface to every account that imports none, and answers on it that the
// account has no JetStream. It tells by this subject whether one does. Nobody may use it.
const notOfItsOwn = `      # Without it, the broker would itself answer every request to JetStream, before ours does.
      { service: { account: %s, subject: %q }, to: "$JS.API.INFO" }
`

func writeRights(out *strings.Builder, rights []Right) {
	for _, right := range rights {
		fmt.Fprintf(out, "            %q # %s\n", right.Subject, right.Why)
	}
}

func writeImports(out *strings.Builder, kind string, rights []Right) {
	for _, r := range rights {
		to := ""
		if r.Ours != "" {
			to = fmt.Sprintf(", to: %q", r.Subject)
		}
		fmt.Fprintf(out, "      { %s: { account: %s, subject: %q }%s }\n", kind, ServicesAccount, r.ours(), to)
	}
}
