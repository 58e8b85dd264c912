import BrokerCore
import BrokerModel
import Cluster
import Glibc
import Platform
import Security
import ServerLoops

/// Dynamic security that the nodes of a cluster share: what is in force here, what was proposed, and what came of it.
///
///     nothing there ─► this node's own is offered ─► stored: the cluster's, conflict: another node's is read
///     another's comes ─► read, on a thread of its own ─► taken over, saved; at the first time a copy of the old one is kept
///     a change is proposed on the number of what is in force ─► stored ─► it is in force
///
/// The file is what a node begins with while no server can be reached. Belongs to the control thread.
final class SharedSecurity {
    enum Decision: Equatable {
        /// The proposal is what all nodes have.
        case made
        /// The command is to be performed again, on what is in force now.
        case again
        case refused(String)
    }

    private let document: SecurityDocument
    private let log: Log
    private let send: (AccessCommand) -> Void
    /// Has a file read that came in chunks; `loaded` gets the result.
    private let read: ([[UInt8]]) -> Void
    /// Called with what another node has changed.
    private let changed: (SecurityChanges) -> Void
    /// The revision that is in force; 0 for one that no other node has.
    private var revision: UInt64 = 0
    private(set) var proposal: SecurityDocument.Proposal?
    /// The revision that the proposal is based on.
    private var base: UInt64 = 0
    private var isOffering = false
    /// The revision that is being read.
    private var reading: UInt64?
    /// The revision that came meanwhile, which is read next.
    private var next: (revision: UInt64, pieces: [[UInt8]])?
    /// Whether the cluster's was taken over at some time: then the file is a copy of it.
    private var hasJoined = false

    /// Whether it is this document's file that nodes share.
    func isOf(_ document: SecurityDocument) -> Bool { self.document === document }

    /// - Parameters:
    ///   - send: has all nodes told.
    ///   - changed: called with what another node has changed.
    ///   - read: has a file read that came in chunks; `loaded` gets the result.
    init(
        _ document: SecurityDocument, log: Log, send: @escaping (AccessCommand) -> Void,
        changed: @escaping (SecurityChanges) -> Void,
        read: @escaping ([[UInt8]]) -> Void
    ) {
        (self.document, self.log, self.send, self.changed, self.read) = (document, log, send, changed, read)
    }

    /// Dynamic security of a file, for all nodes of this broker's cluster.
    convenience init(_ document: SecurityDocument, loops: LoopGroup, control: ControlLoop, log: Log) {
        let mailbox = control.mailbox
        self.init(
            document, log: log, send: { loops.sendToGateway(.access($0)) }, changed: { control.request(.rightsChanged($0)) }
        ) { pieces in
            @Sendable func read() {
                do throws(SecurityFile.Complaint) {
                    mailbox.post(.securityRead(.success(try SecurityFile.model(reading: Array(pieces.joined())))))
                } catch {
                    mailbox.post(.securityRead(.failure(error)))
                }
            }
            do throws(SystemError) {
                // It ends by itself; nobody waits for it.
                _ = try NamedThread.start(name: "martlet-read") { read() }
            } catch {
                read()
            }
        }
    }

    /// Whether nothing can be proposed for a moment.
    var isBusy: Bool { isOffering || reading != nil }

    // MARK: What this node changes

    func propose(_ proposal: SecurityDocument.Proposal) {
        (self.proposal, base) = (proposal, revision)
        send(.security(base: revision, DocumentParts.split(proposal.bytes)))
    }

    func decided(_ verdict: DocumentVerdict, attempts: Int) -> Decision {
        proposal = nil
        switch verdict {
        case .stored(let number):
            revision = number
            join()
            return .made
        case .conflict:
            // What was there came before this, and may still be being read.
            if revision == base, reading == nil { return .refused("the change of another node cannot be read") }
            return attempts < Limits.securityAttemptsMax ? .again : .refused("other nodes change it too often")
        case .refused(let reason): return .refused(reason)
        }
    }

    /// Takes the verdict on this node's own dynamic security, which was offered to the cluster.
    func offered(_ verdict: DocumentVerdict) {
        guard isOffering else { return }
        isOffering = false
        switch verdict {
        case .stored(let number):
            revision = number
            log.write(.notice, "Cluster: from now on all nodes share the dynamic security of \(document.path).")
            join()
        case .conflict: return
        case .refused(let reason): log.write(.warning, "Warning: dynamic security could not be given to the cluster: \(reason).")
        }
    }

    // MARK: What others change

    /// All that the nodes share was read; if there is dynamic security, it comes next.
    func received(_ state: AccessState) {
        hasJoined = state.joined.contains(.security)
        guard !state.hasSecurity else { return }
        revision = 0
        guard proposal == nil, !isOffering else { return }
        isOffering = true
        send(.security(base: 0, DocumentParts.split(SecurityFile.bytes(of: document.model))))
    }

    func received(revision: UInt64, _ pieces: [[UInt8]]) {
        guard reading == nil else {
            next = (revision, pieces)
            return
        }
        reading = revision
        read(pieces)
    }

    func loaded(_ result: Result<SecurityModel, SecurityFile.Complaint>) {
        guard let number = reading else { return }
        reading = nil
        if let next {
            self.next = nil
            return received(revision: next.revision, next.pieces)
        }
        switch result {
        case .success(let model): adopt(model, number)
        case .failure(let complaint):
            log.write(.error, "Error: Cluster: the dynamic security that the nodes share \(complaint) This node uses its own.")
        }
    }

    private func adopt(_ model: SecurityModel, _ number: UInt64) {
        // The number costs nothing, and is another one after each change.
        let isSame =
            model.changeIndex == document.model.changeIndex
            && SecurityFile.bytes(of: model) == SecurityFile.bytes(of: document.model)
        guard !isSame else {
            revision = number
            return join()
        }
        if !hasJoined {
            guard let copy = keepCopy() else { return }
            log.write(
                .warning,
                "Warning: Cluster: the nodes share another dynamic security than \(document.path): theirs is used from now on, and a copy of the "
                    + "file is in \(copy).")
        }
        let (changes, complaint) = document.adopt(model)
        revision = number
        if let complaint { log.write(.error, "Error: Dynamic security is changed, and not saved: \(complaint).") }
        log.write(.information, "Cluster: dynamic security was changed by another node (changeIndex \(model.changeIndex)).")
        changed(changes)
        join()
    }

    /// Puts what is in force beside its file; nil, with a line in the log, if it cannot.
    private func keepCopy() -> String? {
        let names = (1...Limits.securityCopiesMax).lazy.map { "\(self.document.path).before-cluster" + ($0 == 1 ? "" : "-\($0)") }
        guard let path = names.first(where: { access($0, F_OK) != 0 }) else {
            log.write(
                .error, "Error: Cluster: there are too many copies \(document.path).before-cluster: this node uses its own file.")
            return nil
        }
        do throws(FileReplacement.Failure) {
            try SecurityDocument.save(document.model, to: path)
            return path
        } catch {
            log.write(
                .error, "Error: Cluster: no copy of \(document.path) can be kept, \(path) \(error): this node uses its own file.")
            return nil
        }
    }

    private func join() {
        guard !hasJoined else { return }
        hasJoined = true
        send(.joined(.security))
    }
}

extension Limits {
    /// How often a change of dynamic security is made anew because another node was quicker, before it is refused.
    static let securityAttemptsMax = 20

    /// Copies of a node's own dynamic security that are kept when it joins clusters; a node that has so many does not
    /// join.
    static let securityCopiesMax = 100
}
