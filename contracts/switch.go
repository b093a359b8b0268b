package contracts

import "time"

// SwitchList is all kill switches that cover a tenant (schemas/switch_list.v1.json).
type SwitchList struct {
	TenantID string   `json:"tenant_id"`
	Roles    []string `json:"roles"`    // who may close and open those that are the tenant's (O8)
	Switches []Switch `json:"switches"` // the widest first
}

// Switch is one kill switch, by the database's clock.
type Switch struct {
	Switch    string     `json:"switch"` // global, tenant, action_type:NAME or connector:NAME
	Scope     string     `json:"scope"`
	Name      string     `json:"name,omitempty"` // of the action type or connector
	State     string     `json:"state"`          // open, closed or opening
	Share     float64    `json:"share"`          // of the effects that it covers, how many it lets go: 0 to 1
	Epoch     int64      `json:"epoch"`          // that its last change raised; goes back as seen. 0 where it was never changed
	ChangedBy string     `json:"changed_by,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	ChangedAt *time.Time `json:"changed_at,omitempty"`
	OpenAt    *time.Time `json:"open_at,omitempty"` // when all may go, while it is opening
}

// SwitchCase is one kill switch with what it covers and what was done to it (schemas/switch_case.v1.json).
type SwitchCase struct {
	TenantID string `json:"tenant_id"`
	Switch
	Report  SwitchReport   `json:"report"`
	History []SwitchChange `json:"history"` // the last 20, the latest first
}

// SwitchReport is what a switch covers: what waits, what is in flight and what is unknown (D15).
type SwitchReport struct {
	Stopped       int          `json:"stopped"`
	Windowed      int          `json:"windowed"` // of those, the ones that people can still take back
	Retrying      int          `json:"retrying"` // of those, the ones that were tried before
	InFlight      int          `json:"in_flight"`
	InFlightUntil *time.Time   `json:"in_flight_until,omitempty"` // at the latest
	Unknown       int          `json:"unknown"`
	Accepted      int          `json:"accepted"` // the provider works on them by itself
	AtLeast       bool         `json:"at_least"` // there are more than were counted
	Calls         []SwitchCall `json:"calls"`    // some of those in flight, and of those that are unknown
}

// SwitchCall is an effect that may be, or have been, written.
type SwitchCall struct {
	OperationID string    `json:"operation_id"`
	ActionType  string    `json:"action_type"`
	Connector   string    `json:"connector"`
	State       string    `json:"state"` // sending or unknown
	At          time.Time `json:"at"`    // when it has ended at the latest; or since when it is unknown
}

// SwitchChange is something that was done to a switch.
type SwitchChange struct {
	Epoch     int64      `json:"epoch"`
	Closed    bool       `json:"closed"`
	ChangedBy string     `json:"changed_by"`
	Reason    string     `json:"reason"`
	Channel   string     `json:"channel"`
	ChangedAt time.Time  `json:"changed_at"`
	OpenAt    *time.Time `json:"open_at,omitempty"`
}

// SwitchClosing is the body that closes a switch (schemas/switch_closing.v1.json).
type SwitchClosing struct {
	Reason string `json:"reason"`
}

// SwitchOpening is the body that opens a switch (schemas/switch_opening.v1.json).
type SwitchOpening struct {
	Reason      string `json:"reason"`
	Seen        int64  `json:"seen"`         // the switch's epoch, as it was shown
	OverSeconds int    `json:"over_seconds"` // over which more and more effects go; 0 lets all go at once
}
