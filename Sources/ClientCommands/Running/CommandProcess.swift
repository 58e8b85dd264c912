internal import Glibc
internal import Platform

/// A client command as the process that it is: its main thread waits for signals, the work goes on in tasks.
///
/// ```
/// main thread:  block signals ─► sigwait ─► end(.signal) ─► sigwait … the second one ends the process at once
/// task:         run ────────────────────► goodbye ─► exit
/// ```
public enum CommandProcess {
    /// Runs the command and ends the process with its exit code.
    public static func run(_ arguments: ClientArguments) -> Never {
        // A reader of our output that has gone, or a program that reads no request, is an error of write.
        signal(SIGPIPE, SIG_IGN)
        var signals = sigset_t()
        sigemptyset(&signals)
        for number in endingSignals + screenSignals { sigaddset(&signals, number) }
        // Threads that are started from here on inherit it: a signal comes to this thread alone.
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        let ending = Ending()
        let screen = arguments.command == .mirror ? MirrorScreen(arguments) : nil
        Task.detached {
            let code = await CommandRun(arguments, ending, screen).run()
            screen?.leave()
            exit(code)
        }
        while true {
            var number: Int32 = 0
            guard sigwait(&signals, &number) == 0 else { continue }
            if screenSignals.contains(number) {
                screen?.handle(number)
                continue
            }
            if !ending.end(.signal(number)) {
                screen?.leave()
                die(of: number)
            }
        }
    }

    /// What the process does of that signal without us.
    static func die(of number: Int32) -> Never {
        signal(number, SIG_DFL)
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        raise(number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        exit(128 + number)
    }

    static let endingSignals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
    static let screenSignals = [SIGWINCH, SIGTSTP, SIGCONT]
}
