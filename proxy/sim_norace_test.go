//go:build !race

package proxy

// simRows is how many rows of simPairs each service has.
const simRows = 3
