// Package chaos tests whole abides with their clients, sites and store in one bubble of
// testing/synctest, with faults at random from one seed.
//
//	make chaos SEEDS=1000                                  # seeds 1 to 1000
//	go test ./test/chaos -run 'TestChaos/seed=17$' -v      # one of them again
//
// A seed decides the world, the demand and the faults. Which goroutine goes first at one
// instant is up to Go, so a rare failure may need -count=20 to come again.
package chaos
