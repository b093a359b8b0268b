package policy

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/holdpoint/holdpoint/pkg/canonical"
)

// valueOf shows a JSON value to a rule. Objects are looked into as the rule asks; nothing is copied beforehand.
func valueOf(v canonical.Value) ref.Val {
	switch v.Kind() {
	case canonical.Bool:
		return types.Bool(v.True())
	case canonical.Number:
		return numberOf(v)
	case canonical.String:
		return types.String(v.Text())
	case canonical.Array:
		items := make([]ref.Val, 0, v.Len())
		for item := range v.Items() {
			items = append(items, valueOf(item))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, items)
	case canonical.Object:
		return &object{v: v}
	}
	return types.NullValue
}

// object is a JSON object as a CEL map. It belongs to one decision, or is made of values and then never changes.
type object struct {
	v    canonical.Value
	seen []member // what rules have looked up, for the rules that look it up again
	made bool     // of the members in seen, ordered by name, and no JSON
}

// objectOf has these members, in the order of their names: CEL's own maps are gone through in no order, so that a rule
// that does so could come to something else each time (P2).
func objectOf(members []member) *object { return &object{seen: members, made: true} }

type member struct {
	name  string
	value ref.Val // nil where there is none
}

// mostSeen bounds what is kept: beyond it, looking through it would take longer than reading the member again.
const mostSeen = 16

// fewSeen is enough for most objects.
const fewSeen = 4

var _ traits.Mapper = (*object)(nil)

// Find looks a member up by its exact name.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	text, ok := key.(types.String)
	switch {
	case ok:
	case o.made:
		return nil, false
	default:
		return types.MaybeNoSuchOverloadErr(key), false
	}
	for i := range o.seen {
		if o.seen[i].name == string(text) {
			return o.seen[i].value, o.seen[i].value != nil
		}
	}
	if o.made {
		return nil, false
	}
	m := member{name: string(text)}
	if found, ok := o.v.Get(m.name); ok {
		m.value = valueOf(found)
	}
	if o.seen == nil {
		o.seen = make([]member, 0, fewSeen)
	}
	if len(o.seen) < mostSeen {
		o.seen = append(o.seen, m)
	}
	return m.value, m.value != nil
}

// Get is an error where there is no such member.
func (o *object) Get(key ref.Val) ref.Val {
	value, found := o.Find(key)
	switch {
	case found:
		return value
	case value != nil:
		return value // why the key is none
	}
	return types.NewErr("no such key: %v", key)
}

// Contains is CEL's in.
func (o *object) Contains(key ref.Val) ref.Val {
	value, found := o.Find(key)
	if value != nil && types.IsError(value) {
		return value
	}
	return types.Bool(found)
}

// Size counts the members.
func (o *object) Size() ref.Val {
	if o.made {
		return types.Int(len(o.seen))
	}
	return types.Int(o.v.Len())
}

// Iterator yields the names in canonical order, or in that of the members it is made of.
func (o *object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.names()).(traits.Iterable).Iterator()
}

func (o *object) names() []string {
	var names []string
	if o.made {
		for _, m := range o.seen {
			names = append(names, m.name)
		}
	}
	for name := range o.v.Members() {
		names = append(names, name)
	}
	return names
}

// Equal compares member by member.
func (o *object) Equal(other ref.Val) ref.Val {
	if same, ok := other.(*object); ok && !o.made && !same.made {
		return types.Bool(o.v.Equal(same.v))
	}
	m, ok := other.(traits.Mapper)
	if !ok || m.Size() != o.Size() {
		return types.False
	}
	for _, name := range o.names() {
		mine, _ := o.Find(types.String(name))
		value, found := m.Find(types.String(name))
		if !found || types.Equal(mine, value) != types.True {
			return types.False
		}
	}
	return types.True
}

// ConvertToNative is refused: nothing outside a rule reads its values.
func (o *object) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("an object cannot be converted to %s", to)
}

// ConvertToType knows map and type.
func (o *object) ConvertToType(to ref.Type) ref.Val {
	switch to {
	case types.MapType:
		return o
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("an object cannot be converted to %s", to.TypeName())
}

// Type is map.
func (o *object) Type() ref.Type { return types.MapType }

// Value is the JSON value.
func (o *object) Value() any { return o.v }
