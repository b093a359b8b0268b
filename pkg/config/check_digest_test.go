package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// notDeclared are fields that say nothing about the system: what an operation is called, the order in which Holdpoint sends, and what the loader
// found out.
var notDeclared = map[string]bool{"Operation.Name": true, "Operation.InOrder": true, "Operation.Standing": true, "Conditional.Unproved": true}

// A declaration that differs anywhere is another one, so that a setting which is new cannot be left out of the digest.
func TestDigestIsOfAllThatIsDeclared(t *testing.T) {
	t.Parallel()
	full := func() *Operation {
		op := &Operation{}
		fill(reflect.ValueOf(op).Elem())
		return op
	}
	sum := func(op *Operation) string {
		text, err := digestOf(op)
		require.NoError(t, err)
		return text
	}
	original := sum(full())
	require.Equal(t, original, sum(full()))
	fields := leavesOf(reflect.TypeFor[Operation](), "Operation", nil)
	require.Greater(t, len(fields), 35)
	for _, field := range fields {
		changed := full()
		at := reflect.ValueOf(changed).Elem()
		for _, i := range field.index {
			for at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			at = at.Field(i)
		}
		at.SetZero()
		require.Equal(t, notDeclared[field.name], original == sum(changed), "%s", field.name)
	}
}

func TestDigestTellsTheWholeAnswerFromNone(t *testing.T) {
	t.Parallel()
	whole, none := "", &Operation{Read: &Read{Path: "/x"}}
	without, err := digestOf(none)
	require.NoError(t, err)
	none.Read.Values = &whole
	with, err := digestOf(none)
	require.NoError(t, err)
	require.NotEqual(t, without, with)
}

// leaf is a field, by the way to it from an operation.
type leaf struct {
	name  string
	index []int
}

func leavesOf(of reflect.Type, name string, index []int) []leaf {
	var found []leaf
	for i := range of.NumField() {
		field := of.Field(i)
		way := append(append([]int{}, index...), i)
		found = append(found, leaf{name + "." + field.Name, way})
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && field.Name != "Standing" {
			found = append(found, leavesOf(inner, strings.TrimPrefix(inner.Name(), "config."), way)...)
		}
	}
	return found
}

// fill sets everything to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Standing" {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"/a": "/b"}))
	default:
		panic("a field is of a kind that is not filled: " + v.Kind().String())
	}
}
