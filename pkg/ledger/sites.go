package ledger

import (
	"github.com/holdpoint/holdpoint/pkg/fault"
)

// commits names every commit boundary of the ledger and the services that reach it, so that the crash suite can kill each
// service at each of its commits.
var commits = map[string][]string{
	"claim":            {Intake},
	"reclaim":          {Intake},
	"record_conflicts": {Intake},
	"own":              {Intake},
	"take":             {Intake},
	"exhaust":          {Intake},
	"ask_callbacks":    {Intake},
	"take_callbacks":   {Intake},
	"record_callbacks": {Intake},
	"decide":           {Policy},
	"inbox":            {Policy},
	"vote":             {Approval},
	"expire_approvals": {Approval},
	"withdraw":         {Approval},
	"take_back":        {Approval},
	"judge_sample":     {Approval},
	"judge_glass":      {Approval},
	"lapse":            {Approval},
	"announce":         {Approval},
	"remind":           {Approval},
	"escalate":         {Approval},
	"take_notices":     {Approval},
	"mint_token":       {Approval},
	"record_notice":    {Approval},
	"record_refusal":   {Approval},
	"lease":            {Dispatcher},
	"record_outcomes":  {Dispatcher},
	"record_lookups":   {Reconciler},
	"read_outcomes":    {Reconciler},
	"postpone":         {Reconciler},
	"return_draws":     {Reconciler},
	"take_readings":    {Reconciler},
	"record_readings":  {Reconciler},
	"resolve":          {Operator},
	"set_kill_switch":  {Operator},
	"recall":           {Operator},
	"mark":             {Relay},
	"restore":          {Operator},
	"activate_policy":  {Policy, Operator},
	"sweep":            {Relay},
	"park":             {Intake, Policy, Dispatcher},
	"settle_parked":    {Operator},
	"activate_rules":   {Intake},

	"receive_provider_events": {Reconciler},
	"take_provider_events":    {Reconciler},
	"apply_provider_events":   {Reconciler},
	"note_provider_events":    {Reconciler},
	"settle_provider_event":   {Operator},
}

var sites = func() map[string]map[string]*fault.Site {
	all := map[string]map[string]*fault.Site{}
	for command, services := range commits {
		all[command] = map[string]*fault.Site{}
		for _, service := range services {
			all[command][service] = fault.NewSite(service, command, fault.KindCommit)
		}
	}
	return all
}()

// site is the boundary of a command in this ledger's service.
func (l *Ledger) site(command string) *fault.Site {
	s := sites[command][l.service]
	if s == nil {
		panic("ledger: " + l.service + " has no command " + command)
	}
	return s
}
