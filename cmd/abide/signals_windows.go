package main

import "os"

// reopenSignals are the signals that open the access log again.
var reopenSignals []os.Signal
