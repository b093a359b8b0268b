// Package fault names the crash boundaries of the services and, in a build made for it, crashes there.
//
// A boundary is a place where the process may die between two things that cannot be one: around a database commit, a
// broker publish or ack, the first byte to a provider, a provider's answer. Each is declared once, as a package
// variable, and marked on both sides:
//
//	var send = fault.NewSite("dispatcher", "send", fault.KindProviderSend)
//
//	send.Before(ctx, runKey)
//	response, err := client.Do(request)
//	send.After(ctx, runKey)
//
// In a normal build the marks are empty functions that the compiler removes. Built with the tag holdpoint_crash they
// read three variables of the environment:
//
//	HOLDPOINT_CRASH          where to die, see Spec; it holds for this process, so a restarted one is started without it
//	HOLDPOINT_CRASH_CONTROL  URL that a "mid" crash posts to, so that the harness's proxy cuts the connection
//	HOLDPOINT_CRASH_REACHED  file to which each mark is appended, as service/site@side, when first reached
//
// A harness proves that every registered site was reached, which keeps the list honest.
package fault
