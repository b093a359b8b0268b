package demoidp

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"
	"sync"
)

// people is who can sign in, in the order in which the page shows them.
type people struct {
	mu   sync.RWMutex
	list []Person
}

func newPeople(list []Person) *people {
	p := &people{}
	for _, person := range list {
		p.list = append(p.list, person.clone())
	}
	return p
}

func (p Person) clone() Person {
	p.Groups = slices.Clone(p.Groups)
	return p
}

// active returns a person who is known and not disabled.
func (p *people) active(subject string) (Person, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	i := p.index(subject)
	if i < 0 || p.list[i].Disabled {
		return Person{}, false
	}
	return p.list[i].clone(), true
}

func (p *people) all() []Person {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.list)
}

// authenticate compares in constant time, also when nobody has that name, and does not tell why it refuses.
func (p *people) authenticate(subject, password string) bool {
	person, known := p.active(subject)
	got, want := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(person.Password))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && known
}

func (p *people) change(subject string, change func(*Person)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.index(subject)
	if i < 0 {
		return fmt.Errorf("no demo person has the subject %q", subject)
	}
	change(&p.list[i])
	return nil
}

func (p *people) index(subject string) int {
	return slices.IndexFunc(p.list, func(person Person) bool { return person.Subject == subject })
}
