package policy

import "net/url"

// String is the output without a password.
func (o JobOutput) String() string {
	if o.File != "" {
		return o.File
	}
	u, err := url.Parse(o.URL.Reveal())
	if err != nil {
		return "postgres://…"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}
