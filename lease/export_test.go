package lease

// Careless makes an account that does not say again what was lost with a store.
func Careless(a *Account) { a.careless = true }

// Margin is for how long before its end nothing is sent in a window.
func Margin(width int64) int64 { return margin(width) }
