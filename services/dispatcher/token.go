package dispatcher

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/pkg/ledger"
)

// token names one attempt to an executor, for which it is opaque:
//
//	<instance>.<operation id>.<attempt>.<owner>.<secret>         with the command
//	<instance>.<operation id>.<attempt>.<owner>.<secret>.<leave>  with leave
//
// instance is the replica that waits, owner its lease. The secrets are random: nobody can ask leave for a command that was
// not read, and, while the replica lives, nobody reports who was not given leave.
type token struct {
	instance  uuid.UUID
	operation string
	attempt   int
	owner     uuid.UUID
	secret    string
	leave     string // "" with the command
}

func (t token) String() string {
	text := fmt.Sprintf("%s.%s.%d.%s.%s", t.instance, t.operation, t.attempt, t.owner, t.secret)
	if t.leave != "" {
		text += "." + t.leave
	}
	return text
}

// command is the token without leave.
func (t token) command() string {
	t.leave = ""
	return t.String()
}

// key is the effect of a tenant that the token is about.
func (t token) key(tenant string) ledger.EffectKey {
	key := ledger.EffectKey{TenantID: tenant}
	key.RunID, key.Revision, key.Ordinal, _ = ledger.ParseOperationID(t.operation) // read by parseToken before
	return key
}

var errToken = errors.New("not a token")

// parseToken reads a token from outside. The error is errToken.
func parseToken(text string) (token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 5 && len(parts) != 6 {
		return token{}, errToken
	}
	instance, err1 := uuid.Parse(parts[0])
	_, _, _, err2 := ledger.ParseOperationID(parts[1])
	attempt, err3 := strconv.Atoi(parts[2])
	owner, err4 := uuid.Parse(parts[3])
	t := token{instance: instance, operation: parts[1], attempt: attempt, owner: owner, secret: parts[4]}
	if len(parts) == 6 {
		t.leave = parts[5]
	}
	if errors.Join(err1, err2, err3, err4) != nil || attempt < 1 || t.String() != text {
		return token{}, errToken
	}
	return t, nil
}
