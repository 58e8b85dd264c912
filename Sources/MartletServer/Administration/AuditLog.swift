import BrokerCore
import BrokerModel
import Glibc
import Platform
import ServerLoops

/// Where the audit goes: `martlet_audit_log`, or else the log. Belongs to the control thread.
final class AuditLog {
    private let log: Log
    private var file: FileDescriptor?
    private var path: String?

    init(_ log: Log) { self.log = log }

    deinit { file?.close() }

    /// Writes a line.
    ///
    /// - Parameter wanted: the file that the configuration names now; nil for none.
    func write(_ line: String, to wanted: String?) {
        open(wanted)
        guard let file else { return log.write(.notice, "Audit: \(line)") }
        var rest = Array((line + "\n").utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file.rawValue, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            // A disk that is full must not stop the broker; the log has the line then.
            guard count > 0 else { return log.write(.notice, "Audit: \(line)") }
            rest = rest.dropFirst(count)
        }
    }

    /// Opens the file, unless it is open.
    func open(_ wanted: String?) {
        guard wanted != path else { return }
        file?.close()
        file = nil
        path = wanted
        guard let wanted else { return }
        do throws(SystemError) {
            file = try WrittenFile.openAppended(wanted)
        } catch {
            log.write(.error, "Error: martlet_audit_log \(wanted): \(error). The audit goes to the log.")
        }
    }

    /// Opens the file anew: somebody has moved it away.
    func reopen() {
        let wanted = path
        open(nil)
        open(wanted)
    }
}
