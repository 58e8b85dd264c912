import Configuration
import Testing

/// Files as people have them.
@Suite struct RealFileTests {
    @Test func `the file that Debian installs is read without a diagnostic`() {
        let result = read(
            """
            # Place your local configuration in /etc/mosquitto/conf.d/

            pid_file /run/mosquitto/mosquitto.pid

            persistence true
            persistence_location /var/lib/mosquitto/

            log_dest file /var/log/mosquitto/mosquitto.log

            include_dir /etc/mosquitto/conf.d

            """, others: ["/etc/mosquitto/conf.d/README": "Any files placed in this directory that have a .conf ending\n"])
        #expect(result.texts == [])
        #expect(result.configuration.listeners.map(\.endpoint) == [.loopback(port: 1883)])
        #expect(result.configuration.persistence.isEnabled)
        #expect(result.configuration.logging.destinations == [.file(path: "/var/log/mosquitto/mosquitto.log")])
    }

    @Test func `a house with TLS, WebSockets and a bridge is read without an error`() {
        let result = read(
            """
            per_listener_settings false
            password_file /etc/mosquitto/passwd
            acl_file /etc/mosquitto/acl
            max_queued_messages 5000

            listener 1883 127.0.0.1
            listener_allow_anonymous true

            listener 8883
            cafile /etc/ssl/ca.pem
            certfile /etc/ssl/server.pem
            keyfile /etc/ssl/server.key
            require_certificate true
            use_identity_as_username true
            tls_version tlsv1.2

            listener 9001
            protocol websockets

            connection cloud
            address mqtt.example.com:8883
            topic sensors/# out 1 "" house/
            topic commands/# in 1 "" house/
            bridge_cafile /etc/ssl/certs/ca-certificates.crt
            remote_username house
            remote_password secret word
            try_private false
            """)
        #expect(!result.hasErrors, "\(result.texts)")
        let configuration = result.configuration
        #expect(configuration.listeners.map(\.tls.isEnabled) == [false, true, false])
        #expect(configuration.listeners.map(\.security.allowsAnonymous) == [true, false, false])
        #expect(configuration.listeners.map(\.application) == [.mqtt, .mqtt, .webSockets])
        #expect(configuration.bridges.first?.tls.isEnabled == true)
        #expect(configuration.bridges.first?.topics.map(\.remotePrefix) == ["house/", "house/"])
    }
}
