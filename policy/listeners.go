package policy

// Listeners are where the proxy and the operator's listener are.
type Listeners struct {
	Listen string // of the proxy: "ip:port", or ":port" for every address
	Open   OpenListener
	Admin  Admin
}

// Admin is the operator's listener. An empty Listen turns it off.
type Admin struct {
	Listen string
	Token  Secret
}

// OpenListener is the second port of the proxy. A client that uses it says by that
// that it trusts the CA, so all its https is opened.
type OpenListener struct {
	Listen string // "ip:port", or ":port" for every address; "" for no listener
	// Default says that listen_open is not written: abide serves without this
	// listener when its port is taken.
	Default bool
	// Off says that no client can ask for its https to be opened, neither by a port
	// nor by a user name.
	Off bool
	// Run says that the proxy is of abide run, whose command is set up already.
	Run bool
}

// Local tells whether only this machine can reach the proxy.
func (l *Listeners) Local() bool {
	return isLoopback(l.Listen) && (l.Open.Listen == "" || isLoopback(l.Open.Listen))
}

// UnreadRemedy says what to do so that https which passes unread is read, "" where it
// is meant to pass unread.
func (l *Listeners) UnreadRemedy(why Unread) string {
	ask := `start the crawler with "abide run", or set its environment with eval "$(abide env)", or `
	switch {
	case l.Open.Run:
		ask = ""
	case l.Open.Off:
		ask = `start the crawler with "abide run", or `
	}
	switch why {
	case UnreadAuto:
		return ask + "write intercept: all"
	case UnreadUnlisted:
		return ask + "add the host to intercept"
	case UnreadConstrained:
		return "have ca.cert issued for the host, too"
	case UnreadRefused:
		if l.Open.Run {
			return l.TrustRemedy()
		}
		return "have the client trust abide's CA, then run abide reload"
	}
	return ""
}

// TrustRemedy says what to do about a client that does not accept the certificate of
// abide's CA.
func (l *Listeners) TrustRemedy() string {
	if l.Open.Run {
		return "the program does not trust the CA that abide run sets: it pins the site's certificate, has a certificate store of its own, or sets the variable that names the CA itself; see docs/clients.md#https"
	}
	return "`abide env` prints what makes a client trust the CA, `abide ca install` has the whole machine trust it"
}
