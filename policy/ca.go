package policy

// CA is a certificate authority that the operator gives, so that a fleet has one:
// absolute paths of its certificate and its key in PEM. Both are empty where abide
// makes its own.
type CA struct{ Cert, Key string }

// Given tells whether the operator gives the CA.
func (c CA) Given() bool { return c.Cert != "" }
