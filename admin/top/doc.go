// Package top is the live table of "abide top": the sites of a running abide in a terminal.
//
// The model (rows, order, layout) is pure: it takes samples, which have the time at which
// they were taken. The screen shows the model and changes it by keys, all in the loop of tview.
// The poller asks the abide, one request at a time, so that no key waits for an answer.
package top
