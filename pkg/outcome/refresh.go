package outcome

// RefreshAllowed reports whether an effect whose credential was refused is tried once more with another one, as an attempt of its
// own, before it is held: a refused credential wrote nothing. refusedBefore says whether any earlier attempt of the effect was
// refused likewise; where one was maybe sent, it is for reading to find out.
func RefreshAllowed(c Class, dropped, refusedBefore, maybeSentBefore bool) bool {
	return c == Unauthorized && dropped && !refusedBefore && !maybeSentBefore
}
