package canonical

import "iter"

// Leaves yields the parts of a value that are compared with those of another one, each with the JSON pointer to it, in canonical
// order: of an object its members, and theirs; arrays, empty objects and everything else whole. A value that is no object is its
// own leaf, at "".
func (v Value) Leaves() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) { v.leaves("", yield) }
}

func (v Value) leaves(at string, yield func(string, Value) bool) bool {
	if v.Kind() != Object || v.Len() == 0 {
		return yield(at, v)
	}
	for name, member := range v.Members() {
		if !member.leaves(at+"/"+escapeToken(name), yield) {
			return false
		}
	}
	return true
}
