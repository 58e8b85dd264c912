import Administration
import BrokerCore
import BrokerModel
import Configuration
import JSON
import JSONReader
import MQTTCodec
import Platform
import Security
import ServerLoops

/// What clients ask the broker for below `$CONTROL/`. On the control thread.
extension Server {
    static let securityEndpoint: TopicName = "$CONTROL/dynamic-security/v1"
    static let brokerEndpoint: TopicName = "$CONTROL/broker/v1"

    /// Makes the service that performs commands on dynamic security.
    func makeSecurityService(_ brokerClient: BrokerClient) -> DynamicSecurityService {
        let mailbox = control.mailbox
        let securityService = DynamicSecurityService(brokerClient, log: log, sendToLoops: { [unowned self] in sendToLoops($0) }) {
            [unowned self] passwords in
            let hash = SecurityDocuments.hashing(configuration.general)
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
        if clusterPlan != nil, let document = securityDocuments.documents.values.first {
            securityService.share(sharedSecurity(of: document))
        }
        return securityService
    }

    /// Answers a request that a client has published below `$CONTROL/`.
    func received(_ message: ControlMessage) {
        switch message.topic {
        case Self.brokerEndpoint: answer(message, with: brokerAnswer(to: message)) {}
        default:
            // The broker's own clients have come by no listener: they give no commands.
            guard configuration.listeners.indices.contains(message.info.listener),
                let document = securityDocuments.document(of: configuration.listeners[message.info.listener].security),
                let securityService
            else {
                return answer(message, with: Array(#"{"error": "endpoint not available"}"#.utf8)) {}
            }
            let asker = DynamicSecurityService.Asker(
                clientIdentifier: "\(message.clientIdentifier)", userName: message.userName.map { "\($0)" })
            let isTaken = securityService.perform(SecurityRequest(message.payload), on: document, for: asker) {
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

    /// Performs commands that came over HTTP.
    func performSecurityCommands(
        _ payload: [UInt8], for who: String, listener: Int, _ done: @escaping (SecurityCommandsAnswer) -> Void
    ) {
        let own = configuration.listeners.indices.contains(listener) ? configuration.listeners[listener].security : nil
        let document = ([own].compactMap { $0 } + configuration.openListeners.map(\.security)).lazy
            .compactMap { self.securityDocuments.document(of: $0) }.first
        guard let document, let securityService else { return done(.notConfigured) }
        let asker = DynamicSecurityService.Asker(clientIdentifier: "\(HTTPLogin.clientIdentifier)", userName: who)
        let isTaken = securityService.perform(SecurityRequest(payload), on: document, for: asker) { [unowned self] reply, next in
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

    /// Tells the loop that a request came from that it is answered, so that the loop accepts another one.
    private func notifyAnswered(_ message: ControlMessage) {
        loops[message.shard].mailbox.post(.answered(byteCount: message.payload.count))
    }

    /// Writes to the audit log what was changed, or could not be.
    private func audit(_ answer: SecurityDocument.Answer, _ message: ControlMessage) {
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

/// `$CONTROL/broker/v1`: which listeners and plug-ins there are, as mosquitto says it. `enable_control_api`
extension Server {
    /// The answer to a message of commands.
    func brokerAnswer(to message: ControlMessage) -> [UInt8] {
        var answers: [[UInt8]] = []
        func refuse(_ words: String, _ command: String = "Unknown command", _ correlation: String? = nil) {
            var writer = JSONWriter()
            writer.object { object in
                object.set("command", command)
                object.set("error", words)
                if let correlation { object.set("correlationData", correlation) }
            }
            answers.append(writer.bytes)
        }
        let value = try? JSONValue(reading: message.payload)
        if let list = value?.object?.any("commands")?.array {
            for item in list {
                guard answers.count < Limits.brokerCommandsMax else {
                    refuse("Too many commands")
                    break
                }
                guard let members = item.object else {
                    refuse("Command not an object")
                    break
                }
                guard let name = members.any("command")?.string else {
                    refuse("Missing command")
                    break
                }
                let correlation = members.any("correlationData")
                guard correlation == nil || correlation?.string != nil else {
                    refuse("Invalid correlationData data type.", name)
                    break
                }
                switch name.lowercased() {
                case "listlisteners": answers.append(told("listListeners", correlation?.string) { addListeners(to: &$0) })
                case "listplugins": answers.append(told("listPlugins", correlation?.string) { addPlugins(to: &$0) })
                default: refuse("Unknown command", name, correlation?.string)
                }
            }
        } else {
            refuse(value == nil ? "Payload not valid JSON" : "Invalid/missing commands")
        }
        var writer = JSONWriter()
        writer.object { object in object.array("responses") { list in for answer in answers { list.add(json: answer) } } }
        log.write(
            .information,
            "broker: \(message.clientIdentifier)/\(message.userName.map { "\($0)" } ?? "(null)") | \(answers.count) commands")
        return writer.bytes
    }

    private func told(_ command: String, _ correlation: String?, _ data: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { object in
            object.set("command", command)
            object.object("data", data)
            if let correlation { object.set("correlationData", correlation) }
        }
        return writer.bytes
    }

    private func addListeners(to data: inout JSONWriter) {
        data.array("listeners") { list in
            for listener in configuration.openListeners {
                list.object { object in
                    switch listener.endpoint {
                    case .tcp(let port, let host):
                        object.set("port", port)
                        object.set("protocol", Self.name(of: listener.application))
                        if let host { object.set("bind-address", host) }
                    case .loopback(let port):
                        object.set("port", port)
                        object.set("protocol", Self.name(of: listener.application))
                    case .unixSocket(let path):
                        object.set("port", 0)
                        object.set("protocol", Self.name(of: listener.application))
                        object.set("socket-path", path)
                    }
                    object.set("tls", listener.tls.isEnabled)
                }
            }
        }
    }

    private static func name(of application: ListenerProtocol) -> String {
        switch application {
        case .mqtt: "mqtt"
        case .webSockets: "mqtt+websockets"
        case .httpAPI: "httpapi"
        }
    }

    private func addPlugins(to data: inout JSONWriter) {
        let hasSecurity = !securityDocuments.documents.isEmpty
        data.array("plugins") { list in
            guard hasSecurity else { return }
            list.object { object in
                object.set("name", "dynamic-security")
                object.set("version", ProductVersion.text)
                object.array("control-endpoints") { $0.add(.string("\(Self.securityEndpoint)")) }
            }
        }
    }
}

extension Limits {
    /// Commands of one message on `$CONTROL/broker/v1`; those beyond them are refused. Bytes: `requestBodyBytesMax`
    /// each at most.
    static let brokerCommandsMax = 100
}
