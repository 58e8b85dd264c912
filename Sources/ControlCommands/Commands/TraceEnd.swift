internal import Glibc
internal import Platform

/// What ends a trace that is followed: Ctrl-C, or its time. A thread waits for it, since the one that reads waits for the broker.
public enum TraceEnd {
    /// From here on SIGINT and SIGTERM wait for `await`, so that no trace is left behind.
    public static func holdSignals() {
        var signals = signals
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    /// Ends the trace and the process on a signal, and when the time is over.
    public static func await(_ id: String, of service: BrokerService, seconds: Int) {
        // Without the thread the broker ends the trace when its time is over.
        _ = try? NamedThread.start(name: "trace") {
            var signals = signals
            var time = timespec(tv_sec: seconds + 1, tv_nsec: 0)
            while sigtimedwait(&signals, nil, &time) == -1, errno == EINTR {}
            try? Control(service, ControlOutput(width: nil, isJSON: true) { _ in }).endTrace(id)
            exit(EXIT_SUCCESS)
        }
    }

    private static var signals: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGINT)
        sigaddset(&signals, SIGTERM)
        return signals
    }
}
