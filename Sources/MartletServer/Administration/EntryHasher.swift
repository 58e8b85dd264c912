import Platform
import Security
import ServerLoops

/// Hashes passwords for files, as `martlet passwd` does, away from the control thread, which it belongs to.
final class EntryHasher {
    private let mailbox: Mailbox<ControlLoopMessage>
    private var waiting: [Int: (String?) -> Void] = [:]
    private var lastNumber = 0

    init(_ mailbox: Mailbox<ControlLoopMessage>) { self.mailbox = mailbox }

    /// Hashes a password. `done` gets nil where there is no memory for it, or as many are being hashed as may be.
    func hash(_ password: [UInt8], _ scheme: PasswordScheme, _ done: @escaping (String?) -> Void) {
        guard waiting.count < Limits.entriesHashedMax else { return done(nil) }
        lastNumber += 1
        waiting[lastNumber] = done
        do throws(SystemError) {
            // It ends by itself; nobody waits for it.
            _ = try NamedThread.start(name: "martlet-hash") { [lastNumber, mailbox] in
                mailbox.post(.entryHashed(number: lastNumber, try? scheme.entry(for: password)))
            }
        } catch {
            hashed(lastNumber, try? scheme.entry(for: password))
        }
    }

    /// Takes a hash that is finished.
    func hashed(_ number: Int, _ entry: String?) { waiting.removeValue(forKey: number)?(entry) }
}

extension Limits {
    /// Passwords for files that are hashed at the same time; one more is refused. Bytes: 46 MiB each, what Argon2
    /// takes.
    static let entriesHashedMax = 4
}
