import BrokerModel
import MQTTCodec

/// AUTH: enhanced authentication while connecting, and again while connected.
extension BrokerShard {
    /// A packet while CONNECT is not answered: only AUTH and DISCONNECT may come. [MQTT-3.1.2-30 v5]
    func handleUnanswered(_ type: PacketType, _ firstByte: UInt8, _ body: UnsafeRawBufferPointer, _ connection: Connection) {
        do throws(WireError) {
            switch try ControlPacket.decode(firstByte: firstByte, body: body, version: connection.version, from: .client) {
            case .auth(let auth):
                guard auth.reasonCode == .continueAuthentication, let method = matchingMethod(auth, connection),
                    let packet = connection.extras?.pendingConnect
                else {
                    refuseConnect(connection, .protocolError, "AUTH does not go on with the authentication that CONNECT began.")
                    return
                }
                ask(connection, packet, .proceed(method: method, data: auth.properties.authenticationData))
            case .disconnect:
                end(connection)
            default:
                refuseConnect(connection, .protocolError, "\(type.name) was sent before CONNACK.")
            }
        } catch {
            refuseConnect(connection, error.reasonCode, "\(error.explanation)")
        }
    }

    /// AUTH on a connected client: the beginning or the middle of a re-authentication. [MQTT-4.12.1-1 v5]
    func handleAuth(_ auth: AuthPacket, _ connection: Connection) {
        guard let extras = connection.extras, let session = connection.session, extras.authenticationMethod != nil else {
            // [MQTT-4.12.0-7 v5]
            refuse(connection, .protocolError, because: "AUTH was sent without an Authentication Method in CONNECT.")
            return
        }
        guard let method = matchingMethod(auth, connection) else {
            refuse(connection, .protocolError, because: "AUTH names another Authentication Method than CONNECT.")
            return
        }
        let data = auth.properties.authenticationData
        let step: AuthenticationRequest.Step
        switch (auth.reasonCode, extras.isReauthenticating) {
        case (.reauthenticate, false): step = .begin(method: method, data: data)
        case (.continueAuthentication, true): step = .proceed(method: method, data: data)
        default:
            refuse(connection, .protocolError, because: "AUTH with reason \(auth.reasonCode) does not fit here.")
            return
        }
        extras.isReauthenticating = true
        effects.append(
            .authenticate(
                connection.id,
                AuthenticationRequest(clientIdentifier: session.clientIdentifier, info: connection.info, step: step)))
    }

    func finishReauthentication(_ connection: Connection, _ outcome: AuthenticationOutcome) {
        guard let extras = connection.extras, extras.isReauthenticating else { return }
        switch outcome {
        case .accepted(let userName, let data):
            // The session is the first user's, with all that waits in it.
            guard userName == nil || userName == connection.userName else {
                refuse(connection, .notAuthorized, because: "the re-authentication was another user's.", failure: .otherUser)
                return
            }
            extras.isReauthenticating = false
            note(.accepted, connection)
            tell(.success, data, connection)
        case .challenge(let data):
            tell(.continueAuthentication, data, connection)
        case .refused(let reason, let failure):
            // [MQTT-4.12.1-2 v5] [MQTT-3.14.2-1 v5]
            let isKnown = reason.isError && reason.isAllowed(in: .disconnect, from: .server)
            refuse(
                connection, isKnown ? reason : .notAuthorized, because: "the re-authentication was not accepted.", failure: failure)
        }
    }

    /// Sends AUTH on a connected client, which cannot go on without it.
    private func tell(_ reason: ReasonCode, _ data: [UInt8]?, _ connection: Connection) {
        guard !sendAuth(reason, data: data, to: connection) else { return }
        refuse(connection, .packetTooLarge, because: "AUTH is larger than the client's Maximum Packet Size.")
    }

    /// The connection ends while a decision is awaited: whoever decides need not go on.
    func abandonAuthentication(of connection: Connection) {
        guard let extras = connection.extras, extras.authenticationMethod != nil, let packet = extras.pendingConnect else { return }
        ask(connection, packet, .abandon)
    }

    private func matchingMethod(_ auth: AuthPacket, _ connection: Connection) -> EncodedString? {
        guard let method = auth.properties.authenticationMethod, method == connection.extras?.authenticationMethod else {
            return nil
        }
        return method
    }
}
