package policy

// Unread is why https passes unread.
type Unread string

// The reasons why https passes unread.
const (
	UnreadAuto     Unread = "auto"     // intercept: auto, and no rule needs to read the requests
	UnreadUnlisted Unread = "unlisted" // intercept lists other hosts
	UnreadNone     Unread = "none"     // intercept: none
	UnreadExcluded Unread = "excluded" // the host's rule has learn: false and no limit that needs requests
	UnreadRefused  Unread = "refused"  // the client does not accept the certificate of abide's CA
	// UnreadConstrained: the name constraints of ca.cert do not permit the host.
	UnreadConstrained Unread = "constrained"
)
