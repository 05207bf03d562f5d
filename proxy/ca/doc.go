// Package ca is the certificate authority for interception: a root that
// is generated on first run, and a leaf certificate for each intercepted name, signed
// once and cached.
//
// The usual call:
//
//	authority, err := ca.Open(ca.Dir(p.Data), ca.Options{Names: p.InterceptNames()})
//	if err != nil {
//		return err
//	}
//	config, err := authority.TLSConfig("api.example.com")
//	conn := tls.Server(client, config)
//
// # Files
//
// The directory (0700) holds ca-key.pem (0600) and ca.pem (0644). The key is
// created with link(2), which exactly one of several processes wins, and so is
// the certificate after it; the losers use what the winner made. Nothing is
// locked, and a crash between the two leaves a key for which the next process
// makes a certificate.
//
// Beside them, or in another directory, WriteBundle writes what clients read: our
// root with the user's own (extra.pem), with the system's too (bundle.pem and
// bundle.jks), and settings for wget and PHP. They are written again when the
// root is renewed.
//
// # Names
//
// When only listed hosts are intercepted, the root carries critical name
// constraints: a thief of its key cannot impersonate other hosts to the
// clients that trust it. When the list grows beyond what the root covers, a new
// root certificate is made for the same key and subject, which covers what the
// old one did and the new names; the old one is kept beside it as
// ca-FINGERPRINT.pem and Options.Notice says that clients must trust the new
// one. Because the key is the same, clients that know only the old certificate
// go on as before with the names it covers. When the list shrinks the root
// stays, so that clients need not trust another; to get the
// narrower root, remove ca.pem. The same renewal happens when the root nears its
// end. A list that is empty (but not nil) gets a root that covers nothing.
package ca
