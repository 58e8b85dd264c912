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

/// What clients ask the broker for below `$CONTROL/`. Belongs to the control thread.
///
///     request ─► brokerEndpoint: answered at once
///             └► securityEndpoint: DynamicSecurityService ─► audit ─► the answer, published
final class ControlTopicService {
    static let securityEndpoint: TopicName = "$CONTROL/dynamic-security/v1"
    static let brokerEndpoint: TopicName = "$CONTROL/broker/v1"

    private let loops: LoopGroup
    private let brokerClient: BrokerClient
    private let security: DynamicSecurityService
    private let documents: SecurityDocuments
    private let configuration: RunningConfiguration
    private let administration: Administration
    private let log: Log

    init(
        loops: LoopGroup, _ brokerClient: BrokerClient, _ security: DynamicSecurityService, _ documents: SecurityDocuments,
        _ configuration: RunningConfiguration, _ administration: Administration, log: Log
    ) {
        (self.loops, self.brokerClient, self.security, self.documents) = (loops, brokerClient, security, documents)
        (self.configuration, self.administration, self.log) = (configuration, administration, log)
    }

    /// Answers a request that a client has published below `$CONTROL/`.
    func received(_ message: ControlMessage) {
        switch message.topic {
        case Self.brokerEndpoint: answer(message, with: brokerAnswer(to: message)) {}
        default:
            // The broker's own clients have come by no listener: they give no commands.
            let listeners = configuration.value.listeners
            guard listeners.indices.contains(message.info.listener),
                let document = documents.document(of: listeners[message.info.listener].security)
            else {
                return answer(message, with: Array(#"{"error": "endpoint not available"}"#.utf8)) {}
            }
            let asker = DynamicSecurityService.Asker(
                clientIdentifier: "\(message.clientIdentifier)", userName: message.userName.map { "\($0)" })
            let isTaken = security.perform(SecurityRequest(message.payload), on: document, for: asker) {
                [unowned self] reply, next in
                audit(reply, message)
                administration.endSessions(ofUsers: reply.changes.users)
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

    /// Publishes an answer to all who may read it.
    ///
    /// - Parameter done: called when it has left, or when it cannot.
    private func answer(_ message: ControlMessage, with text: [UInt8], _ done: @escaping () -> Void) {
        notifyAnswered(message)
        guard let topic = EncodedString(message.topic.bytes + "/response".utf8) else { return done() }
        let packet = PublishPacket(topic: topic, payload: text)
        brokerClient.publish(packet) { [log] reason, _ in
            if reason.isError { log.write(.warning, "Warning: the answer on \(topic) could not be sent: \(reason).") }
            done()
        }
    }

    /// Tells the loop that a request came from that it is answered, so that the loop accepts another one.
    private func notifyAnswered(_ message: ControlMessage) {
        loops.send(.answered(byteCount: message.payload.count), to: message.shard)
    }

    /// Writes to the audit log what was changed, or could not be.
    private func audit(_ answer: SecurityDocument.Answer, _ message: ControlMessage) {
        guard !answer.changes.isEmpty || answer.failure != nil else { return }
        administration.record(
            AuditEntry(
                at: Moment.now().wallMilliseconds, source: .control,
                who: message.userName.map { "\($0)" } ?? "\(message.clientIdentifier)", address: message.info.address,
                operation: "dynamicSecurity", target: answer.lines.joined(separator: "; "),
                status: answer.failure == nil ? 200 : 500,
                milliseconds: 0))
    }
}

extension SecurityChanges {
    /// The users who have another login or other rights now.
    var users: Set<String> { Set(kicked.users.union(renewed.users).map { "\($0)" }) }
}

/// `$CONTROL/broker/v1`: which listeners and plug-ins there are, as mosquitto says it. `enable_control_api`
extension ControlTopicService {
    /// The answer to a message of commands.
    private func brokerAnswer(to message: ControlMessage) -> [UInt8] {
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
                case "listlisteners": answers.append(response("listListeners", correlation?.string) { addListeners(to: &$0) })
                case "listplugins": answers.append(response("listPlugins", correlation?.string) { addPlugins(to: &$0) })
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

    private func response(_ command: String, _ correlation: String?, _ data: (inout JSONWriter) -> Void) -> [UInt8] {
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
            for listener in configuration.value.openListeners {
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
        let hasSecurity = !documents.documents.isEmpty
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
