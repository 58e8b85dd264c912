import Configuration
import Glibc
import MartletServer
import Persistence

/// What is said of an import.
struct ImportReport {
    let plan: ConfigurationImport
    /// mosquitto's file.
    let main: String
    /// Martlet's directory.
    let directory: String
    let owner: ImportOwner

    private var ourMain: String { "\(directory)/martlet.conf" }
    private var unit: ServiceUnit? { ServiceUnit.running(ourMain) }

    /// Every file, and its copy.
    func sayCopies(_ database: ImportedDatabase?) {
        let copies = plan.copies + (database?.copies ?? [])
        let width = copies.map(\.source.count).max() ?? 0
        Console.say("mosquitto's files, and their copies\(owner.names.map { " for the user \($0.user)" } ?? ""):")
        for copy in copies {
            let file = owner.file(of: copy)
            let names = owner.names.map { " \(copy.purpose == .state ? $0.user : "root"):\($0.group)" } ?? ""
            Console.say(
                "  \(copy.source)\(String(repeating: " ", count: width - copy.source.count))  ->  \(copy.destination)  "
                    + "(\(String(file.mode, radix: 8))\(names))")
        }
        if let database {
            let counts = database.counts
            Console.say(
                "  The database holds \(Self.number(counts.sessions, "session")), \(Self.number(counts.subscriptions, "subscription")), "
                    + "\(Self.number(counts.queuedMessages, "queued message")) and \(Self.number(counts.retainedMessages, "retained message")). The broker "
                    + "takes them over at its first start.")
            if !database.isComplete {
                Console.say("  mosquitto was running when it wrote the database: what came later is not in it.")
            }
        }
    }

    /// Every line that is another one in its copy, what has no counterpart, and what else there is to know.
    func sayLines() {
        var file = ""
        if !plan.changes.isEmpty { Console.say("\nLines that are different in the copy:") }
        for change in plan.changes {
            if change.file != file { Console.say("  \(change.file)") }
            file = change.file
            let reason = change.reason.map { "   (\($0))" } ?? ""
            Console.say("    \(change.line): - \(change.before)\(change.after == nil ? reason : "")")
            if let after = change.after {
                Console.say("    \(String(repeating: " ", count: "\(change.line)".count))  + \(after)\(reason)")
            }
        }
        say("Without a counterpart:", plan.withoutCounterpart)
        say("To know:", plan.remarks)
    }

    /// What is wrong with the result, or not as it was meant; whether the broker could not start.
    @discardableResult
    func sayProblems(checkingFiles: Bool) -> Bool {
        var result = plan.result
        if checkingFiles {
            result = ConfigurationReader(files: DiskFiles(), environment: ConfigurationSource.environment).read(path: ourMain)
        }
        result.diagnostics += ConfigurationSupport.objections(to: result)
        var diagnostics = result.diagnostics
        if checkingFiles { diagnostics += StartCheck(result, file: ourMain, keyLogFile: nil).diagnostics }
        if !diagnostics.isEmpty { Console.say("\nWhat Martlet says of the copies:") }
        for diagnostic in diagnostics { Console.say("  \(diagnostic)") }
        return diagnostics.contains { $0.severity == .error }
    }

    /// What to type now.
    ///
    /// - Parameters:
    ///   - hasErrors: whether the broker would not start yet.
    ///   - runs: whether mosquitto still does.
    func sayNextSteps(hasErrors: Bool, runs: Bool) {
        Console.say(
            "\nNothing of mosquitto's was changed, and nothing was started. \(hasErrors ? "Correct what is called an error; then" : "Now") type:"
        )
        if hasErrors { Console.say("  sudo martlet --test-config -c \(ourMain)") }
        guard let unit else {
            if runs { Console.say("  sudo systemctl disable --now mosquitto") }
            return Console.say("  \(owner.names == nil ? "" : "sudo ")martlet -c \(ourMain)")
        }
        let name = unit.name.hasSuffix(".service") ? String(unit.name.dropLast(".service".count)) : unit.name
        let isEnabled = access("/etc/systemd/system/multi-user.target.wants/mosquitto.service", F_OK) == 0
        if runs || isEnabled { Console.say("  sudo systemctl disable --now mosquitto") }
        Console.say("  sudo systemctl enable \(name)")
        Console.say("  sudo systemctl restart \(name)")
        Console.say("  journalctl -u \(name)")
        Console.say("To go back:")
        Console.say("  sudo systemctl disable --now \(name)")
        Console.say("  sudo systemctl enable --now mosquitto")
    }

    private func say(_ title: String, _ lines: [String]) {
        guard !lines.isEmpty else { return }
        Console.say("\n\(title)")
        for line in lines { Console.say("  \(line)") }
    }

    private static func number(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
}
