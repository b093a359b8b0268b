package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// registerUUID lets a session hand uuid.UUID over as its 16 bytes. Without it pgx takes the value through database/sql's
// interfaces, as text both ways, which was a tenth of the CPU under load.
func registerUUID(_ context.Context, conn *pgx.Conn) error {
	types := conn.TypeMap()
	types.TryWrapEncodePlanFuncs = append([]pgtype.TryWrapEncodePlanFunc{wrapUUIDToEncode}, types.TryWrapEncodePlanFuncs...)
	types.TryWrapScanPlanFuncs = append([]pgtype.TryWrapScanPlanFunc{wrapUUIDToScan}, types.TryWrapScanPlanFuncs...)
	return nil
}

// native is a uuid.UUID as pgx's own codec takes it.
type native uuid.UUID

// UUIDValue is pgtype.UUIDValuer.
func (n native) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: n, Valid: true}, nil }

// ScanUUID is pgtype.UUIDScanner.
func (n *native) ScanUUID(v pgtype.UUID) error {
	if !v.Valid {
		return fmt.Errorf("cannot read NULL into a uuid.UUID")
	}
	*n = v.Bytes
	return nil
}

type encodeUUID struct{ next pgtype.EncodePlan }

func (p *encodeUUID) SetNext(next pgtype.EncodePlan) { p.next = next }

func (p *encodeUUID) Encode(value any, buf []byte) ([]byte, error) {
	return p.next.Encode(native(value.(uuid.UUID)), buf)
}

// encodeUUIDPointer is for a column that may be null; pgx handles the nil pointer before it asks a plan.
type encodeUUIDPointer struct{ next pgtype.EncodePlan }

func (p *encodeUUIDPointer) SetNext(next pgtype.EncodePlan) { p.next = next }

func (p *encodeUUIDPointer) Encode(value any, buf []byte) ([]byte, error) {
	return p.next.Encode(native(*value.(*uuid.UUID)), buf)
}

func wrapUUIDToEncode(value any) (pgtype.WrappedEncodePlanNextSetter, any, bool) {
	switch value.(type) {
	case uuid.UUID:
		return &encodeUUID{}, native{}, true
	case *uuid.UUID:
		return &encodeUUIDPointer{}, native{}, true
	}
	return nil, nil, false
}

type scanUUID struct{ next pgtype.ScanPlan }

func (p *scanUUID) SetNext(next pgtype.ScanPlan) { p.next = next }

func (p *scanUUID) Scan(src []byte, dst any) error {
	return p.next.Scan(src, (*native)(dst.(*uuid.UUID)))
}

func wrapUUIDToScan(target any) (pgtype.WrappedScanPlanNextSetter, any, bool) {
	id, ok := target.(*uuid.UUID)
	return &scanUUID{}, (*native)(id), ok
}
