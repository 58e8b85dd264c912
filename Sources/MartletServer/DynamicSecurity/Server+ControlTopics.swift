import Administration
import BrokerCore
import BrokerModel
import Configuration
import DynamicSecurity
import EpollLoop
import MQTTCodec
import Platform
import Security
import ServerLoops

/// What clients ask the broker for below `$CONTROL/`. On the control thread.
extension Server {
    static let securityEndpoint: TopicName = "$CONTROL/dynamic-security/v1"
    static let brokerEndpoint: TopicName = "$CONTROL/broker/v1"

    /// Makes what performs commands on dynamic security.
    func makeSecurityService(_ brokerClient: BrokerClient) -> DynamicSecurityService {
        let mailbox = control.mailbox
        let securityService = DynamicSecurityService(brokerClient, log: log, sendToLoops: { [unowned self] in sendToLoops($0) }) {
            [unowned self] passwords in
            let hash = SecurityKeepers.hashing(configuration.general)
            @Sendable func make() {
                let pairs = passwords.compactMap { password in
                    hash(String(decoding: password, as: UTF8.self)).map { (password, $0) }
                }
                mailbox.post(.hashed(Dictionary(pairs) { first, _ in first }))
            }
            do throws(SystemError) {
                // It ends by itself; nobody waits for it.
                _ = try NamedThread.start(name: "martlet-hash") { make() }
            } catch {
                make()
            }
        }
        if clusterPlan != nil, let keeper = keepers.keepers.values.first { securityService.share(sharedSecurity(of: keeper)) }
        return securityService
    }

    /// A client has published a request.
    func received(_ message: ControlMessage) {
        switch message.topic {
        case Self.brokerEndpoint: answer(message, with: brokerAnswer(to: message)) {}
        default:
            // The broker's own clients have come by no listener: they give no commands.
            guard configuration.listeners.indices.contains(message.info.listener),
                let keeper = keepers.keeper(of: configuration.listeners[message.info.listener].security), let securityService
            else {
                return answer(message, with: Array(#"{"error": "endpoint not available"}"#.utf8)) {}
            }
            let asker = DynamicSecurityService.Asker(
                clientIdentifier: "\(message.clientIdentifier)", userName: message.userName.map { "\($0)" })
            let isTaken = securityService.perform(SecurityRequest(message.payload), on: keeper, for: asker) {
                [unowned self] reply, next in
                audit(reply, message)
                endSessions(reply.changes)
                answer(message, with: reply.text, next)
            }
            if !isTaken {
                notifyAnswered(message)
                log.write(
                    .warning,
                    "Warning: \(message.topic): too many requests wait; a request of \(message.clientIdentifier) is not carried out."
                )
            }
        }
    }

    /// Commands came over HTTP.
    func performSecurityCommands(
        _ payload: [UInt8], for who: String, listener: Int, _ done: @escaping (SecurityCommandsAnswer) -> Void
    ) {
        let own = configuration.listeners.indices.contains(listener) ? configuration.listeners[listener].security : nil
        let keeper = ([own].compactMap { $0 } + configuration.openListeners.map(\.security)).lazy
            .compactMap { self.keepers.keeper(of: $0) }.first
        guard let keeper, let securityService else { return done(.notConfigured) }
        let asker = DynamicSecurityService.Asker(clientIdentifier: "\(HTTPLogin.clientIdentifier)", userName: who)
        let isTaken = securityService.perform(SecurityRequest(payload), on: keeper, for: asker) { [unowned self] reply, next in
            let hasChanged = !reply.changes.isEmpty
            done(.performed(reply.text, changes: hasChanged ? reply.lines.joined(separator: "; ") : ""))
            endSessions(reply.changes)
            next()
        }
        if !isTaken { done(.busy) }
    }

    /// Ends the sessions over HTTP of users who have another login or other rights now: they log in again.
    func endSessions(_ changes: SecurityChanges) {
        administration?.endSessions(ofUsers: Set(changes.kicked.users.union(changes.renewed.users).map { "\($0)" }))
    }

    /// Publishes an answer to all who may read it.
    ///
    /// - Parameter done: called when it has left, or when it cannot.
    private func answer(_ message: ControlMessage, with text: [UInt8], _ done: @escaping () -> Void) {
        notifyAnswered(message)
        guard let brokerClient, let topic = EncodedString(message.topic.bytes + "/response".utf8) else { return done() }
        let packet = PublishPacket(topic: topic, payload: text)
        brokerClient.publish(packet) { [log] reason, _ in
            if reason.isError { log.write(.warning, "Warning: the answer on \(topic) could not be sent: \(reason).") }
            done()
        }
    }

    /// The loop that a request came from may take another one in its place.
    private func notifyAnswered(_ message: ControlMessage) {
        loops[message.shard].mailbox.post(.answered(byteCount: message.payload.count))
    }

    /// Notes what was changed, or could not be, for whoever asks who did it.
    private func audit(_ answer: SecurityKeeper.Answer, _ message: ControlMessage) {
        guard !answer.changes.isEmpty || answer.failure != nil else { return }
        administration?.record(
            AuditEntry(
                at: MonotonicClock.milliseconds() &+ WallClock.offsetMilliseconds(), source: .control,
                who: message.userName.map { "\($0)" } ?? "\(message.clientIdentifier)", address: message.info.address,
                operation: "dynamicSecurity", target: answer.lines.joined(separator: "; "),
                status: answer.failure == nil ? 200 : 500,
                milliseconds: 0))
    }
}
