package active

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/pkg/config"
	"github.com/holdpoint/holdpoint/pkg/ledger"
	"github.com/holdpoint/holdpoint/pkg/service"
)

// ByFiles is who activates the policy of files at a start.
const ByFiles = "files"

// install activates the policies of the files, as far as a start may. A version that was stored before is never activated by a
// start: an old replica that comes back during a roll-out, or one with stale files, must not take a tenant back.
func (p *Policies[T]) install(ctx context.Context) error {
	if !p.Install {
		return nil
	}
	var problems []error
	for _, t := range p.Env.Config.Tenants {
		problems = append(problems, p.installOne(ctx, t))
	}
	return errors.Join(problems...)
}

func (p *Policies[T]) installOne(ctx context.Context, t *config.Tenant) error {
	a := ledger.PolicyActivation{TenantID: t.ID, Version: t.PolicyVersion, Content: t.PolicyContent, By: ByFiles,
		Reason: "The tenant had no active policy.", When: ledger.PolicyFirst}
	if p.Env.PolicyActivation == service.ActivateFiles {
		a.When, a.Reason = ledger.PolicyUnknown, "The files held a policy that was never stored."
	}
	active, changed, err := p.Env.Ledger.ActivatePolicy(ctx, a)
	if err != nil {
		return fmt.Errorf("activate the policy that the files of tenant %s hold: %w", t.ID, err)
	}
	log := p.Env.Log.With("tenant", t.ID, "active", active.Version, "files", t.PolicyVersion)
	switch {
	case changed:
		log.Info("the policy of the files was activated", "activation", active.Ordinal, "reason", a.Reason)
	case active.Version != t.PolicyVersion:
		log.Warn("the files hold a policy that is not the active one and is not used", "to activate it",
			fmt.Sprintf("holdpoint policy activate --tenant %s --config DIR --by WHO --reason WHY", t.ID))
	}
	return nil
}
