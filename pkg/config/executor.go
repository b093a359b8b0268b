package config

// OperationIDMember is what an executor knows a repeated command by: the member of the command that is the same on every
// attempt. It stands where an HTTP operation has the header of its idempotency key.
const OperationIDMember = "operation_id"

// What an executor's connector and its operations do not have: it is not called, so there is no address, no credential and no
// answer to read.
var (
	notOfExecutors = []string{"base_url", "allowed_hosts", "bearer_env", "bearer_file", "basic", "api_key", "oauth2", "hmac",
		"max_response", "webhook", "ca_file"}
	notOfCommands = []string{
		"method", "path", "body", "idempotency_header", "conditional", "success", "refused", "busy_statuses", "in_progress_code",
		"key_reused_code", "error_code", "refused_codes", "busy_codes", "unauthorized_codes", "receipt_version", "request_id_header",
		"lookup", "read",
	}
)

// readExecutor reads how a program of the tenant's carries effects out (B6).
func readExecutor(part *object, c *Connector) {
	const why = "is for kind http; this connector's kind is executor"
	c.Timeout = part.duration("timeout", defaultReport)
	c.LeaveWithin = part.duration("leave_within", defaultLeave)
	part.refuse(why, notOfExecutors...)
	part.refuse("is for kind smtp; this connector's kind is executor", ofMailAlone...)
	c.Operations = readOperations(part, func(op *object) *Operation {
		op.refuse(why, notOfCommands...)
		op.refuse("is for kind smtp; this connector's kind is executor", ofSendAlone...)
		return &Operation{IdempotencyHeader: OperationIDMember}
	})
}

// refuse complains of those of the settings that are written, and knows them all.
func (o *object) refuse(why string, names ...string) {
	for _, name := range names {
		if o.take(name) != nil {
			o.fail(name, "%s", why)
		}
	}
}
