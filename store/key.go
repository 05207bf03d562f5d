package store

// Separator is between the parts of a key. No part contains it.
const Separator = "\x1f"

// BudgetKey is the key of a limit's budget: the limit's name, and the key of whose budget
// it is, "" for a budget common to all.
func BudgetKey(limit, whose string) string {
	if whose == "" {
		return limit
	}
	return limit + Separator + whose
}
