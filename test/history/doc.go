// Package history checks what processes that keep budgets together have done, by a record of each
// operation of their store and of all that they took: that the operations are linearizable, and that no
// window of a limit has more than the limit promises. It has tests only.
//
//	go test ./test/history                        # some seeds of each case
//	ABIDE_HISTORIES=25 go test ./test/history     # 25 times as many, as make histories
package history
