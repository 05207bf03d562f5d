// Package clients holds no code of abide: it is the proof that programs which
// people crawl with work through it. Its tests start the real binary between
// an origin of their own, over plain HTTP and over TLS, and real clients, each
// with a script of a screenful:
//
//	curl.sh HTTP-BASE HTTPS-BASE
//
// A script asks both bases for the same things, says what it got in a line for
// each, and takes proxy and roots from its environment, as a crawler does. What
// a client needs beyond the environment stands in its script, with the reason.
//
//	SCHEME STEP STATUS SHA256-OF-THE-DECODED-BODY VERSION-OF-HTTP
//	https  big  200    30e14955ebf1352266dc2ff8…  HTTP/2
//
// Versions that a client does not tell are "-". The steps are: get (a query),
// post (a body), big (1 MiB), gzip, redirect (followed), and again (another get,
// on a connection that is open by then).
//
// Other tests are about tokens: what only the whole can show, with the binary between
// real clients and sites that count, refuse and repeat what they are sent.
//
// The tests of table_test.go run the table in docs/clients.md, and those of quickstart_test.go
// run the blocks of docs/quickstart.md.
//
// The clients come from Debian and, with the versions of Node that run them, from
// package.json: the Node of this machine only installs them.
package clients
