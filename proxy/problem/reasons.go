package problem

import "slices"

// all are the problems that have a name.
var all = []*Problem{
	&TooManyConnections, &TooManyFromClient, &Stranger, &Revoked, &Authenticate, &NotAProxyRequest,
	&BadTarget, &Userinfo, &Scheme, &Version, &Trace, &Method, &Expectation, &LengthRequired,
	&Trailers, &Misdirected, &Cleartext, &ConnectBody, &Port, &Loop, &BadBody, &SlowBody, &LargeBody,
	&Upgrade, &Bug, &Wish, &TooLong, &Never, &LongBody, &StandsStill, &Others, &Permits, &QueueFull,
	&Away, &Insecure, &Exhausted, &Draining, &Broken, &Failed, &Malformed, &LargeHead, &Coding,
}

// Reasons are the reasons of all problems that a client may be told, in order.
func Reasons() []string {
	var list []string
	for _, one := range all {
		list = append(list, one.Reason)
	}
	for _, one := range ofUpstream {
		list = append(list, one.Reason)
	}
	for fault := range ofTLS {
		list = append(list, fault.String())
	}
	slices.Sort(list)
	return slices.Compact(list)
}
