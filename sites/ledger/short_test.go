package ledger

import "testing"

// A window that is hardly longer than the way there and back, and of which the end is
// not said, has often begun anew before anybody hears of it. What may have been
// counted in it by then is not taken again, once the first windows are over.
func TestAWindowThatBeganUnheardOfIsNotExceeded(t *testing.T) {
	t.Parallel()
	for _, flying := range []int{16, 30, 100} {
		for seed := range uint64(40) {
			o := &fixedOrigin{limit: 20, window: 1, quiet: true, length: true}
			s := run{
				origin: o, meter: New(Options{}), flying: flying, fastest: 0.4, slowest: 0.6, length: 40,
				random: dice(seed), thinking: []float64{0, 0.02, 0.06, 0.1}[seed%4],
			}
			for _, at := range s.do().refusals {
				if at > 5 {
					t.Errorf("%d in flight, %d: refused at %v", flying, seed, at)
				}
			}
		}
	}
}
