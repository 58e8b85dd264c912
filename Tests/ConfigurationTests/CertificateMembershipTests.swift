import Configuration
import Testing

/// The groups and roles of dynamic security that clients have by their certificates.
@Suite struct CertificateMembershipTests {
    @Test func `a part names the group itself, or a value of it stands for one`() throws {
        let text = """
            plugin mosquitto_dynamic_security.so
            plugin_opt_config_file d
            listener 1
            certfile c
            keyfile k
            cafile a
            require_certificate true
            martlet_certificate_group ou
            martlet_certificate_group o=Pump  Station pumps
            martlet_certificate_role san-dns=a.example doors
            """
        let result = read(text)
        #expect(result.diagnostics.filter { $0.severity == .error }.isEmpty)
        let tls = result.configuration.listeners[0].tls
        #expect(
            tls.certificateGroups == [
                CertificateMembership(.organizationalUnit),
                CertificateMembership(.organization, value: "Pump Station", name: "pumps"),
            ])
        #expect(tls.certificateRoles == [CertificateMembership(.dns, value: "a.example", name: "doors")])
    }
}
