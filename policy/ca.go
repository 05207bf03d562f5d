package policy

import "fmt"

// CA is a certificate authority that the operator gives, so that a fleet has one:
// absolute paths of its certificate and its key in PEM. Both are empty where abide
// makes its own.
type CA struct{ Cert, Key string }

// Given tells whether the operator gives the CA.
func (c CA) Given() bool { return c.Cert != "" }

func caSettings() []setting {
	return []setting{
		fileSetting("ca.cert", "the certificate in PEM of a CA of one's own, which abide signs with instead of making one", func(p *Policy) *string { return &p.CA.Cert }),
		fileSetting("ca.key", "the key of ca.cert, ECDSA or RSA in PEM", func(p *Policy) *string { return &p.CA.Key }),
	}
}

func fileSetting(name, doc string, at func(*Policy) *string) setting {
	return setting{
		Key: Key{Name: name, Kind: "file", Doc: doc},
		read: func(p *Policy, in *input) {
			*at(p) = ""
			if in.value() == "" {
				return
			}
			path, err := in.path()
			if err != nil {
				in.fail(-1, err)
				return
			}
			*at(p) = path
		},
		show: func(p *Policy) string { return *at(p) },
	}
}

// checkCA wants both files of a CA or neither.
func (l *loading) checkCA(p *Policy) {
	switch {
	case p.CA.Cert != "" && p.CA.Key == "":
		l.contradict("ca.cert", "needs ca.key, the file with the key of this certificate")
	case p.CA.Key != "" && p.CA.Cert == "":
		l.contradict("ca.key", "needs ca.cert, the file with the certificate of this key")
	}
}

// describeData is what is kept in the data directory, and whose the CA is.
func (p *Policy) describeData() (data, authority string) {
	switch {
	case p.CA.Given():
		authority = fmt.Sprintf("%s, with the key %s", p.CA.Cert, p.CA.Key)
	case p.Data == "none":
		return "nothing is kept, the CA is a new one at each start", ""
	}
	if p.Data == "none" {
		return "nothing is kept", authority
	}
	return p.Data, authority
}
